/* The content type of a file: from its name, else from its first bytes. */
#ifndef IMPORT_CONTENT_TYPE_H
#define IMPORT_CONTENT_TYPE_H

#include <stddef.h>

#define CONTENT_TYPE_SNIFF_BYTES 512 /* more of a file is never looked at */

/* Static texts; NULL when nothing is known. name may be a path. */
const char *content_type_of_name(const char *name, size_t length);
const char *content_type_of_bytes(const void *head, size_t length);
/* The first that knows; "binary/octet-stream" if none does. */
const char *content_type(const char *name, size_t name_length, const void *head, size_t length);

#endif
