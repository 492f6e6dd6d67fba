/* The storage seam: everything the store does to a device goes through this table. One
   implementation on files (volume_file.c), one simulated with faults (test/lib/volume_sim.c).

   Contract, which the simulated volume enforces: a segment file is written in order of offsets, in
   whole blocks, each block once in the life of an open handle; only what a failed write or sync has
   left unknown, from the last good sync on, may be written again. What was written is durable only
   after sync returned 0; a new or removed file's name only after dir_sync. After a failed write or
   sync, what the device holds of the unsynced bytes is unknown. */
#ifndef STORE_VOLUME_H
#define STORE_VOLUME_H

#include <stddef.h>
#include <stdint.h>

struct shoal_error;
struct volume;

/* A segment's open file; every implementation's own struct begins with this one. */
struct volume_file {
    int ring_fd; /* for ring reads, or -1 where there is none */
};

struct volume_ops {
    /* Exclusive, held until close; SHOAL_E_BUSY names the holder in error. */
    int (*lock)(struct volume *volume, struct shoal_error *error);

    /* All return 0 or -errno. A created file is empty; -EEXIST if the id is there. */
    int (*create)(struct volume *volume, uint64_t segment_id, struct volume_file **ret_file);
    int (*open)(struct volume *volume, uint64_t segment_id, struct volume_file **ret_file);
    void (*close)(struct volume_file *file);
    int (*remove)(struct volume *volume, uint64_t segment_id);
    /* Orphan search only. Calls visit for each segment file, in no order; stops when it returns
       non-zero, and returns that. */
    int (*list)(struct volume *volume, int (*visit)(void *arg, uint64_t segment_id), void *arg);

    /* buffer, length and offset are multiples of block_bytes. Writes all or fails. */
    int (*write_at)(struct volume_file *file, const void *buffer, size_t length, uint64_t offset);
    /* Any alignment. Returns the bytes read, fewer only at the end of the file, or -errno.
       Thread-safe, also against write_at elsewhere in the file. */
    int64_t (*read_at)(struct volume_file *file, void *buffer, size_t length, uint64_t offset);
    /* The same from the device, past any cache in memory, where that can be had. */
    int64_t (*read_direct)(struct volume_file *file, void *buffer, size_t length, uint64_t offset);
    /* Reserves room up to end without changing the bytes; -ENOSPC leaves the file usable. */
    int (*reserve)(struct volume_file *file, uint64_t end);
    /* Gives back what was reserved or left behind past end. */
    int (*trim)(struct volume_file *file, uint64_t end);
    int (*sync)(struct volume_file *file);
    int (*dir_sync)(struct volume *volume);
    int (*size)(struct volume_file *file, uint64_t *ret_bytes);
    /* Blocks the whole store takes, in bytes. */
    int (*usage)(struct volume *volume, uint64_t *ret_bytes);

    /* The manifest: whole content (*ret_bytes freed by mem_free; length 0 when there is none), made
       durable first and read from the device, since an append that failed in an earlier process may
       have left entries in the cache that are not on the device; and
       a durable append that succeeds only if the length is still `version`; bytes past `version`,
       left by a crash, are cut first. SHOAL_E_CONFLICT when it is shorter. After any other
       failure what the device holds past `version` is unknown. */
    int (*manifest_read)(struct volume *volume, uint8_t **ret_bytes, size_t *ret_length);
    int (*manifest_append)(
        struct volume *volume, uint64_t version, const void *bytes, size_t length);

    void (*done)(struct volume *volume); /* unlocks and frees */
};

struct volume {
    const struct volume_ops *ops;
    uint32_t block_bytes; /* the larger of direct-I/O alignment and physical block */
};

/* The descriptor for ring reads, or -1 where the volume has none. */
int volume_file_fd(const struct volume_file *file);

/* On files below dir: dir/LOCK, dir/MANIFEST, dir/seg/<16 hex digits>. create: make dir and seg
   where absent; refuses (SHOAL_E_NO_STORE with the reason) a dir that holds other things. */
int volume_file_open(const char *dir, int create, int read_only, struct volume **ret_volume,
    struct shoal_error *error);

#endif
