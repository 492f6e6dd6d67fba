/* Texts for error codes, and the record that carries what, where and why.

   Project codes have their sentence in one table here; negative errno values get glibc's constant
   description. Neither allocates or depends on the locale, so both are safe in any thread and on
   any failure path. A file name or text that is too long for the record is cut, never an error. */
#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code;
    const char *text;
} texts[] = {
    {SHOAL_E_ABSENT, "no such object"},
    {SHOAL_E_NO_BUCKET, "no such bucket"},
    {SHOAL_E_EXISTS, "the bucket exists already"},
    {SHOAL_E_NOT_EMPTY, "the bucket still holds objects"},
    {SHOAL_E_CORRUPT, "the stored bytes are damaged"},
    {SHOAL_E_FORMAT, "not a shoal store, or one written by a newer shoal"},
    {SHOAL_E_BUSY, "the store is in use by another process"},
    {SHOAL_E_NO_STORE, "the directory holds no store"},
    {SHOAL_E_BAD_KEY, "the key is empty, over 1,024 bytes, or holds a NUL byte"},
    {SHOAL_E_BAD_NAME, "not a legal bucket name (3 to 63 of a-z 0-9 . -)"},
    {SHOAL_E_TOO_LARGE, "over the size limit"},
    {SHOAL_E_READ_ONLY, "the store takes no writes"},
    {SHOAL_E_CONFLICT, "a condition did not hold"},
    {SHOAL_E_CLOSED, "the store is closing"},
    {SHOAL_E_MISMATCH, "another key lies there"},
    {SHOAL_E_AGAIN, "not ready yet, try again"},
    {SHOAL_E_WRITE_FAILED, "the device refused a write; the object was not stored"},
};

const char *shoal_strerror(int code)
{
    const char *text = NULL;

    if (code >= 0)
        return "no error";
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].code == code)
            return texts[i].text;
    }
    if (code > SHOAL_E_ABSENT)
        text = strerrordesc_np(-code);
    return text != NULL ? text : "unknown error";
}

static void copy_cut(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);

    memcpy(to, from, length);
    to[length] = 0;
}

int error_set(
    struct shoal_error *error, int code, const char *file, uint64_t offset, const char *format, ...)
{
    va_list arguments;

    if (error == NULL)
        return code;
    error->code = code;
    error->offset = offset;
    copy_cut(error->file, sizeof(error->file), file != NULL ? file : "");
    va_start(arguments, format);
    /* A text that is cut is still the best there is. */
    (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return code;
}
