/* Filling struct shoal_error. The codes themselves are public: include/shoal/error.h. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <shoal/error.h>

/* Sets code, file (NULL: none), offset and the formatted text, and returns code, so that a caller
   can write "return error_set(…)". error may be NULL. */
int error_set(struct shoal_error *error, int code, const char *file, uint64_t offset,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
