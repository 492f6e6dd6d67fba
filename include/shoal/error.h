/* Error codes and the detailed error record of libshoal. */
#ifndef SHOAL_ERROR_H
#define SHOAL_ERROR_H

#include <stdint.h>

/* Functions return 0 or a count, or one negative code: -errno where the system refused (-ENOSPC,
   -EACCES, …), or one of these. Absent and corrupt are never reported as ENOENT or EIO. */
enum shoal_code {
    SHOAL_E_ABSENT = -4001, /* no object under that key */
    SHOAL_E_NO_BUCKET = -4002, /* no such bucket */
    SHOAL_E_EXISTS = -4003, /* the bucket is there already */
    SHOAL_E_NOT_EMPTY = -4004, /* the bucket still holds objects */
    SHOAL_E_CORRUPT = -4005, /* stored bytes fail their checks */
    SHOAL_E_FORMAT = -4006, /* written by a newer shoal, or not a shoal store */
    SHOAL_E_BUSY = -4007, /* another process holds the store */
    SHOAL_E_NO_STORE = -4008, /* the directory holds no store */
    SHOAL_E_BAD_KEY = -4009, /* key empty, over 1,024 bytes, or with a NUL byte */
    SHOAL_E_BAD_NAME = -4010, /* not a legal bucket name */
    SHOAL_E_TOO_LARGE = -4011, /* over a stated limit */
    SHOAL_E_READ_ONLY =
        -4012, /* the store takes no writes (opened so, or after a failed manifest) */
    SHOAL_E_CONFLICT = -4013, /* a condition did not hold */
    SHOAL_E_CLOSED = -4014, /* the store is closing */
    SHOAL_E_MISMATCH = -4015, /* a candidate place holds another key (internal) */
    SHOAL_E_AGAIN = -4016, /* not ready: the catalogue is being rebuilt */
    SHOAL_E_WRITE_FAILED =
        -4017, /* the device refused a write or sync; the object was not stored */
};

/* What went wrong, for a person. Filled by open, recover and check. */
struct shoal_error {
    int code;
    uint64_t offset; /* byte offset in file, where that says something */
    char file[256];
    char text[512];
};

/* A constant sentence for any code above or -errno. Never NULL. Thread-safe. */
const char *shoal_strerror(int code);

#endif
