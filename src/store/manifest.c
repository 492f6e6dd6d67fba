/* The manifest.

   An entry is a header (magic, CRC32C, length, number) and a list of edits, padded to 8 bytes. Entries
   are numbered from 1 without gaps. A change of several things, such as "the old segment ends here,
   the new one begins", is one entry, so no crash can separate them.

   Reading stops at the first entry that does not pass. If a valid entry with a higher number lies
   anywhere behind it, the bad one was once whole: that is damage, and opening fails rather than
   forget segments. Otherwise it is the torn end of an append that never succeeded. */
#include "store/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/volume.h"

#define ENTRY_MAGIC        0x464e4d53u /* "SMNF" */
#define ENTRY_HEADER_BYTES 24u
#define EDIT_HEADER_BYTES  4u
#define ENTRY_BYTES_MAX    4096u
#define STORE_EDIT_BYTES   56u

/* Set when a store holds something that an older program must not even read. None so far. */
#define FEATURES_KNOWN 0u

static uint32_t entry_crc(const uint8_t *at, uint32_t length)
{
    return crc32c(crc32c(0, at, 4), at + 8, length - 8);
}

/* 0 or SHOAL_E_CORRUPT; length is what the buffer holds from at on. */
static int entry_check(const uint8_t *at, size_t length, uint32_t *ret_length, uint64_t *ret_number)
{
    uint32_t entry_length;

    if (length < ENTRY_HEADER_BYTES || get_u32(at) != ENTRY_MAGIC)
        return SHOAL_E_CORRUPT;
    entry_length = get_u32(at + 8);
    if (entry_length < ENTRY_HEADER_BYTES || entry_length > ENTRY_BYTES_MAX ||
        entry_length > length || entry_length % 8 != 0 || get_u32(at + 12) != 0)
        return SHOAL_E_CORRUPT;
    if (get_u32(at + 4) != entry_crc(at, entry_length))
        return SHOAL_E_CORRUPT;
    *ret_length = entry_length;
    *ret_number = get_u64(at + 16);
    return 0;
}

struct manifest_segment *manifest_find(struct manifest *manifest, uint64_t segment_id)
{
    for (size_t i = manifest->count; i-- > 0;) {
        if (manifest->segments[i].id == segment_id)
            return &manifest->segments[i];
        if (manifest->segments[i].id < segment_id)
            break;
    }
    return NULL;
}

/* Whether the edit may follow what the manifest says already. */
static int edit_check(struct manifest *manifest, const struct manifest_edit *edit)
{
    const struct manifest_segment *segment;

    if (edit->kind == EDIT_SEGMENT)
        return edit->segment.id > manifest->last_id && edit->segment.epoch >= manifest->epoch
                   ? 0
                   : SHOAL_E_CORRUPT;
    segment = manifest_find(manifest, edit->segment.id);
    if (!segment || segment->state == SEGMENT_SEALED)
        return SHOAL_E_CORRUPT;
    if (segment->state == SEGMENT_ENDED && segment->end != edit->segment.end)
        return SHOAL_E_CORRUPT;
    return 0;
}

static int reserve_segment(struct manifest *manifest)
{
    size_t capacity = manifest->capacity ? 2 * manifest->capacity : 16;
    void *grown;

    if (manifest->count < manifest->capacity)
        return 0;
    grown = mem_resize(manifest->segments, capacity * sizeof(*manifest->segments));
    if (!grown)
        return -ENOMEM;
    manifest->segments = grown;
    manifest->capacity = capacity;
    return 0;
}

/* Of a checked edit, with room for a segment. */
static void edit_apply(struct manifest *manifest, const struct manifest_edit *edit)
{
    struct manifest_segment *segment;

    if (edit->kind == EDIT_SEGMENT) {
        manifest->segments[manifest->count++] = edit->segment;
        manifest->last_id = edit->segment.id;
        manifest->epoch = edit->segment.epoch;
        return;
    }
    segment = manifest_find(manifest, edit->segment.id);
    segment->end = edit->segment.end;
    segment->state = edit->kind == EDIT_END ? SEGMENT_ENDED : SEGMENT_SEALED;
    if (edit->kind == EDIT_SEALED)
        segment->footer_bytes = edit->segment.footer_bytes;
}

static int store_edit_parse(
    const uint8_t *at, uint32_t length, struct manifest *manifest, struct shoal_error *error)
{
    if (length >= 8 && (get_u32(at) > FORMAT_VERSION || get_u32(at + 4) & ~FEATURES_KNOWN))
        return error_set(error, SHOAL_E_FORMAT, "MANIFEST", 0,
            "the store has format %u with features 0x%x, this program knows format %u: use a newer "
            "shoal",
            get_u32(at), get_u32(at + 4), FORMAT_VERSION);
    if (length != STORE_EDIT_BYTES)
        return SHOAL_E_CORRUPT;
    manifest->block_bytes = get_u32(at + 8);
    manifest->hash_seed = get_u64(at + 16);
    memcpy(manifest->uuid, at + 24, 16);
    memcpy(manifest->incarnation, at + 40, 16);
    if (manifest->block_bytes < 512 || manifest->block_bytes > 1u << 20 ||
        manifest->block_bytes & (manifest->block_bytes - 1))
        return SHOAL_E_CORRUPT;
    return 0;
}

static const uint8_t edit_bytes[] = {
    [EDIT_STORE] = STORE_EDIT_BYTES, [EDIT_SEGMENT] = 17, [EDIT_END] = 16, [EDIT_SEALED] = 20};

static int edit_parse(const uint8_t *at, uint8_t kind, struct manifest *manifest)
{
    struct manifest_edit edit = {.kind = kind, .segment.id = get_u64(at)};
    int rc;

    if (kind == EDIT_SEGMENT) {
        edit.segment.epoch = get_u64(at + 8);
        edit.segment.kind = at[16];
        if (edit.segment.kind != SEGMENT_LOG && edit.segment.kind != SEGMENT_PACKED)
            return SHOAL_E_CORRUPT;
    } else {
        edit.segment.end = get_u64(at + 8);
        if (edit.segment.end % manifest->block_bytes != 0 || edit.segment.end > 1ull << 40)
            return SHOAL_E_CORRUPT;
        if (kind == EDIT_SEALED)
            edit.segment.footer_bytes = get_u32(at + 16);
    }
    rc = edit_check(manifest, &edit);
    if (!rc)
        rc = reserve_segment(manifest);
    if (!rc)
        edit_apply(manifest, &edit);
    return rc;
}

static int entry_parse(
    const uint8_t *at, uint32_t length, struct manifest *manifest, struct shoal_error *error)
{
    const uint8_t *end = at + length;

    at += ENTRY_HEADER_BYTES;
    while (end - at >= EDIT_HEADER_BYTES && at[0] != 0) {
        uint8_t kind = at[0];
        uint16_t value_length = get_u16(at + 2);
        int rc;

        at += EDIT_HEADER_BYTES;
        if (at[-3] != 0 || value_length > end - at)
            return SHOAL_E_CORRUPT;
        if (kind > EDIT_SEALED)
            return error_set(error, SHOAL_E_FORMAT, "MANIFEST", 0,
                "the manifest has an edit of kind %u, which this program does not know: use a "
                "newer shoal",
                kind);
        if ((kind == EDIT_STORE) != (manifest->block_bytes == 0))
            return SHOAL_E_CORRUPT;
        if (kind == EDIT_STORE)
            rc = store_edit_parse(at, value_length, manifest, error);
        else
            rc =
                value_length == edit_bytes[kind] ? edit_parse(at, kind, manifest) : SHOAL_E_CORRUPT;
        if (rc)
            return rc;
        at += value_length;
    }
    for (; at < end; at++)
        if (*at != 0)
            return SHOAL_E_CORRUPT;
    return 0;
}

/* Whether a valid entry numbered above `number` lies behind offset. */
static bool later_entry(
    const uint8_t *bytes, size_t length, uint64_t offset, uint64_t number, uint64_t *ret_offset)
{
    uint32_t entry_length;
    uint64_t entry_number;

    for (uint64_t at = offset + 8; at + ENTRY_HEADER_BYTES <= length; at += 8)
        if (entry_check(bytes + at, length - at, &entry_length, &entry_number) == 0 &&
            entry_number > number) {
            *ret_offset = at;
            return true;
        }
    return false;
}

int manifest_parse(
    const uint8_t *bytes, size_t length, struct manifest *ret_manifest, struct shoal_error *error)
{
    struct manifest manifest = {0};
    uint64_t at = 0, later;
    uint32_t entry_length;
    uint64_t number;
    int rc = 0;

    while (at < length && entry_check(bytes + at, length - at, &entry_length, &number) == 0 &&
           number == manifest.entries + 1) {
        rc = entry_parse(bytes + at, entry_length, &manifest, error);
        if (!rc && manifest.block_bytes == 0)
            rc = SHOAL_E_CORRUPT; /* the first entry says whose store this is */
        if (rc == SHOAL_E_CORRUPT)
            rc = error_set(error, rc, "MANIFEST", at, "entry %llu contradicts those before it",
                (unsigned long long)number);
        if (rc)
            goto failed;
        at += entry_length;
        manifest.entries = number;
    }
    if (at < length && later_entry(bytes, length, at, manifest.entries, &later)) {
        rc = error_set(error, SHOAL_E_CORRUPT, "MANIFEST", at,
            "entry %llu is damaged (a valid one follows at offset %llu): restore MANIFEST from a "
            "backup",
            (unsigned long long)manifest.entries + 1, (unsigned long long)later);
        goto failed;
    }
    if (manifest.entries == 0) {
        rc = error_set(error, SHOAL_E_NO_STORE, "MANIFEST", 0, "there is no store here");
        goto failed;
    }
    manifest.version = at;
    *ret_manifest = manifest;
    return 0;
failed:
    manifest_done(&manifest);
    return rc;
}

int manifest_load(struct volume *volume, struct manifest *ret_manifest, struct shoal_error *error)
{
    uint8_t *bytes = NULL;
    size_t length = 0;
    int rc = volume->ops->manifest_read(volume, &bytes, &length);

    if (rc)
        return error_set(error, rc, "MANIFEST", 0, "can't be read: %s", shoal_strerror(rc));
    rc = manifest_parse(bytes, length, ret_manifest, error);
    mem_free(bytes);
    return rc;
}

static uint32_t edit_encode(
    const struct manifest *manifest, const struct manifest_edit *edit, uint8_t *at)
{
    uint8_t *value = at + EDIT_HEADER_BYTES;

    at[0] = (uint8_t)edit->kind;
    put_u16(at + 2, edit_bytes[edit->kind]);
    if (edit->kind == EDIT_STORE) {
        put_u32(value, FORMAT_VERSION);
        put_u32(value + 8, manifest->block_bytes);
        put_u64(value + 16, manifest->hash_seed);
        memcpy(value + 24, manifest->uuid, 16);
        memcpy(value + 40, manifest->incarnation, 16);
    } else if (edit->kind == EDIT_SEGMENT) {
        put_u64(value, edit->segment.id);
        put_u64(value + 8, edit->segment.epoch);
        value[16] = edit->segment.kind;
    } else {
        put_u64(value, edit->segment.id);
        put_u64(value + 8, edit->segment.end);
        if (edit->kind == EDIT_SEALED)
            put_u32(value + 16, edit->segment.footer_bytes);
    }
    return EDIT_HEADER_BYTES + edit_bytes[edit->kind];
}

static int entry_append(struct volume *volume, struct manifest *manifest,
    const struct manifest_edit *edits, size_t count)
{
    uint8_t entry[ENTRY_BYTES_MAX] = {0};
    uint32_t length = ENTRY_HEADER_BYTES;
    int rc;

    for (size_t i = 0; i < count; i++) {
        if (length + EDIT_HEADER_BYTES + STORE_EDIT_BYTES + 8 > ENTRY_BYTES_MAX)
            return SHOAL_E_TOO_LARGE;
        length += edit_encode(manifest, &edits[i], entry + length);
    }
    length = (uint32_t)round_up(length, 8);
    put_u32(entry, ENTRY_MAGIC);
    put_u32(entry + 8, length);
    put_u64(entry + 16, manifest->entries + 1);
    put_u32(entry + 4, entry_crc(entry, length));
    rc = volume->ops->manifest_append(volume, manifest->version, entry, length);
    if (rc)
        return rc;
    manifest->version += length;
    manifest->entries++;
    return 0;
}

int manifest_create(struct volume *volume, struct manifest *manifest)
{
    struct manifest_edit edit = {.kind = EDIT_STORE};

    return entry_append(volume, manifest, &edit, 1);
}

int manifest_commit(struct volume *volume, struct manifest *manifest,
    const struct manifest_edit *edits, size_t count)
{
    int rc = reserve_segment(manifest);

    /* What contradicts the manifest must not get into it: it could not be read again. */
    for (size_t i = 0; !rc && i < count; i++)
        rc = edit_check(manifest, &edits[i]);
    if (!rc)
        rc = entry_append(volume, manifest, edits, count);
    for (size_t i = 0; !rc && i < count; i++)
        edit_apply(manifest, &edits[i]);
    return rc;
}

void manifest_done(struct manifest *manifest)
{
    mem_free(manifest->segments);
    memset(manifest, 0, sizeof(*manifest));
}
