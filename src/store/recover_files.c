/* Opening: whether the files are those that the manifest speaks of.

   Each segment's superblock and length are looked at before it is replayed; and files behind the last
   one that the manifest names, for an entry that it has lost.

   A superblock whose CRC fails is damage that costs nothing: the manifest knows all that it says. But a
   file that is another segment's, or shorter than what was once durable in it, is as good as missing,
   and a file with groups that the manifest does not name means that its last entries are damaged: a
   torn entry was never durable, and no group is written before its segment's entry is. All of these
   fail the open, since serving what is left would answer "absent", or with an older version. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/store_priv.h"
#include "store/volume.h"

#define FROM_BACKUP "put it back from a backup"

static int refuse(uint64_t segment_id, struct shoal_error *error, int code, const char *text)
{
    char file[64];

    (void)snprintf(file, sizeof(file), "seg/%016" PRIx64, segment_id);
    return error_set(error, code, file, 0, "%s", text);
}

/* 0, SHOAL_E_CORRUPT when it does not pass, SHOAL_E_FORMAT, or -errno. */
static int read_superblock(
    struct shoal *store, struct volume_file *file, struct superblock *ret_superblock)
{
    uint32_t length = store->manifest.block_bytes;
    uint8_t *block = mem_alloc(length);
    int64_t got;
    int rc;

    if (!block)
        return -ENOMEM;
    got = store->config.volume->ops->read_at(file, block, length, 0);
    rc = got < 0 ? (int)got : superblock_decode(block, (size_t)got, ret_superblock);
    mem_free(block);
    return rc;
}

static bool is_of_store(const struct shoal *store, const struct superblock *superblock)
{
    return memcmp(superblock->uuid, store->manifest.uuid, sizeof(superblock->uuid)) == 0;
}

static int check_superblock(struct shoal *store, struct segment *segment, struct shoal_error *error)
{
    struct superblock superblock;
    int rc = read_superblock(store, segment->file, &superblock);

    if (rc == SHOAL_E_CORRUPT) {
        store->damage_at_open++;
        return 0;
    }
    if (rc)
        return refuse(segment->id, error, rc, shoal_strerror(rc));
    if (!is_of_store(store, &superblock))
        return refuse(segment->id, error, SHOAL_E_CORRUPT,
            "is a segment of another store: put this store's own back from a backup");
    if (superblock.segment_id != segment->id || superblock.epoch != segment->epoch)
        return refuse(segment->id, error, SHOAL_E_CORRUPT,
            "holds another segment of this store: " FROM_BACKUP);
    return 0;
}

int store_check_file(struct shoal *store, struct segment *segment,
    const struct manifest_segment *named, struct shoal_error *error)
{
    uint32_t block = store->manifest.block_bytes;
    /* The superblock is durable before the manifest names the segment, and all groups before it says
       where they end. What the last one's padding lacks does not matter. */
    uint64_t least = named->state == SEGMENT_ACTIVE ? block : named->end, bytes;
    int rc = store->config.volume->ops->size(segment->file, &bytes);

    if (rc)
        return refuse(segment->id, error, rc, shoal_strerror(rc));
    if (round_up(bytes, block) < least)
        return refuse(segment->id, error, SHOAL_E_CORRUPT,
            "is shorter than the manifest says, it was cut off: " FROM_BACKUP);
    return check_superblock(store, segment, error);
}

/* --- files that the manifest does not name --- */

/* 1: the first group is there, so that something behind it may have been acknowledged; 0; or -errno. */
static int holds_groups(struct shoal *store, struct volume_file *file, uint64_t segment_id)
{
    uint32_t block = store->manifest.block_bytes;
    uint8_t bytes[GROUP_HEADER_BYTES];
    struct superblock superblock;
    struct group_header header;
    struct crc_seed seed = {.segment_id = segment_id};
    int rc = read_superblock(store, file, &superblock);
    int64_t got;

    if (rc)
        return rc == SHOAL_E_CORRUPT || rc == SHOAL_E_FORMAT ? 0 : rc;
    if (!is_of_store(store, &superblock))
        return 0;
    got = store->config.volume->ops->read_at(file, bytes, sizeof(bytes), block);
    if (got < (int64_t)sizeof(bytes))
        return got < 0 ? (int)got : 0;
    seed.epoch = superblock.epoch;
    return group_decode(bytes, seed, block, &header) == 0;
}

/* Stops at the first one. Lower ids are not looked at: what the manifest lost were its last entries. */
static int find_forgotten(void *arg, uint64_t segment_id)
{
    struct shoal *store = arg;
    struct volume *volume = store->config.volume;
    struct volume_file *file;
    int rc;

    if (segment_id <= store->manifest.last_id)
        return 0;
    rc = volume->ops->open(volume, segment_id, &file);
    if (rc)
        return rc;
    rc = holds_groups(store, file, segment_id);
    volume->ops->close(file);
    return rc;
}

int store_check_forgotten(struct shoal *store, struct shoal_error *error)
{
    struct volume *volume = store->config.volume;
    int rc = volume->ops->list(volume, find_forgotten, store);

    if (rc < 0)
        return error_set(error, rc, "seg", 0, "can't be listed: %s", shoal_strerror(rc));
    if (rc == 0)
        return 0;
    return error_set(error, SHOAL_E_CORRUPT, "MANIFEST", store->manifest.version,
        "its last entries are damaged or missing (seg/ holds a segment that it does not "
        "name): " FROM_BACKUP);
}

static int stop_at_any(void *arg, uint64_t segment_id)
{
    (void)arg;
    (void)segment_id;
    return 1;
}

int store_check_unused(struct shoal *store, struct shoal_error *error)
{
    struct volume *volume = store->config.volume;
    int rc = volume->ops->list(volume, stop_at_any, NULL);

    if (rc < 0)
        return error_set(error, rc, "seg", 0, "can't be listed: %s", shoal_strerror(rc));
    if (rc == 0)
        return 0;
    return error_set(error, SHOAL_E_CORRUPT, "MANIFEST", 0,
        "is damaged from its beginning, though seg/ holds segments: " FROM_BACKUP);
}
