/* The volume on files: what its parts share. */
#ifndef STORE_VOLUME_FILE_PRIV_H
#define STORE_VOLUME_FILE_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include "store/volume.h"

/* Bytes of a manifest; a longer file is not one of ours. */
#define MANIFEST_BYTES_MAX (256u << 20)

/* Nothing here changes after volume_file_open but lock_fd, which lock and done set. */
struct file_volume {
    struct volume volume;
    char *dir_path;
    int dir_fd;
    int seg_fd; /* -1: read_only and there is no seg yet */
    int lock_fd; /* -1: not locked */
    bool read_only;
    bool direct; /* O_DIRECT is accepted */
};

struct file_segment {
    struct volume_file file; /* ring_fd: buffered, for reads, and for writes where direct is off */
    struct file_volume *owner;
    uint64_t id;
    atomic_int direct_fd; /* -1 until the first use */
};

/* volume_file_dir.c */
int file_volume_lock(struct volume *volume, struct shoal_error *error);
int file_volume_usage(struct volume *volume, uint64_t *ret_bytes);
void file_volume_done(struct volume *volume);
/* Finds whether O_DIRECT works and sets block_bytes. */
void file_volume_probe(struct file_volume *volume);

/* volume_file_manifest.c */
int file_manifest_read(struct volume *volume, uint8_t **ret_bytes, size_t *ret_length);
int file_manifest_append(struct volume *volume, uint64_t version, const void *bytes, size_t length);

/* volume_file.c */
extern const struct volume_ops file_volume_ops;
/* Writes all or fails; interrupted and short writes go on. */
int file_write_all(int fd, const void *buffer, size_t length, uint64_t offset);
/* Reads up to the end of the file. */
int64_t file_read_all(int fd, void *buffer, size_t length, uint64_t offset);
/* 1 for sixteen lower-case hex digits and nothing else. */
int file_segment_name_parse(const char *name, uint64_t *ret_id);

/* Durability steps, named so that they show where they are taken. 0 or -errno. */
int file_sync(int fd); /* content, and what is needed to read it back */
int file_sync_full(int fd); /* all metadata too */
int dir_sync(int fd); /* names in a folder */

#endif
