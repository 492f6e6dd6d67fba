/* Small helpers for files outside the store. */
#ifndef IMPORT_LOCAL_H
#define IMPORT_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* All of the bytes, or -errno. */
int local_write_all(int fd, const void *data, size_t length);
/* Sets the modification time of an open file; the access time becomes now. 0 or -errno. */
int local_set_mtime(int fd, int64_t mtime_ns);
int64_t local_mtime_ns(const struct stat *st);
/* The same as struct shoal_attrs wants it. */
int64_t local_mtime_attr(const struct stat *st);
/* False if that many bytes certainly don't fit on the file system of this descriptor. */
bool local_has_room(int fd, uint64_t bytes);
/* Equal in size and modification time. */
bool local_same(const struct stat *a, const struct stat *b);

#endif
