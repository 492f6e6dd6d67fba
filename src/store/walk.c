/* Walking a segment.

   Groups follow each other at block boundaries. Each is read whole and its records are decoded one
   after the other; lengths are believed only after the CRC that covers them.

   Where something does not pass there are two cases. Below the end that is known, or below what a later
   group declares durable, it is damage: it is reported, and the walk goes on with the next record or
   group that passes. Otherwise it is what a crash left of a group that was never acknowledged: the
   log ends before that group, whole groups only. */
#include "store/walk.h"

#include <errno.h>
#include <string.h>

#include <shoal/error.h>

#include "base/broken.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "store/segment.h"
#include "store/volume.h"

#define SEARCH_BYTES (1u << 20)
/* A group is at most this long: larger lengths are not believed. */
#define GROUP_BYTES_MAX (72u << 20)

struct walker {
    const struct walk *walk;
    struct walk_result result;
    struct crc_seed seed;
    uint64_t file_bytes;
    uint64_t limit; /* groups lie below this */
    bool find_tail;
    uint64_t last_sequence; /* before the group that is looked at */
    uint64_t padding_sequence; /* the last one of the groups from result.padding_from on */
    uint8_t *buffer;
    size_t buffer_bytes;
};

static void report(struct walker *walker, uint64_t offset, const char *text)
{
    walker->result.damaged++;
    if (walker->walk->hooks.damage)
        walker->walk->hooks.damage(walker->walk->hooks.arg, offset, text);
}

static int64_t read_bytes(struct walker *walker, void *buffer, size_t length, uint64_t offset)
{
    const struct walk *walk = walker->walk;
    const struct volume_ops *ops = walk->volume->ops;

    return walk->direct ? ops->read_direct(walk->segment->file, buffer, length, offset)
                        : ops->read_at(walk->segment->file, buffer, length, offset);
}

static int need_buffer(struct walker *walker, size_t bytes)
{
    void *grown;

    if (bytes <= walker->buffer_bytes)
        return 0;
    bytes = round_up(bytes, SEARCH_BYTES);
    grown = mem_aligned(4096, bytes);
    if (!grown)
        return -ENOMEM;
    mem_free(walker->buffer);
    walker->buffer = grown;
    walker->buffer_bytes = bytes;
    return 0;
}

/* 1: a valid header lies at offset; 0: none; or an error. */
static int header_at(struct walker *walker, uint64_t offset, struct group_header *ret_header)
{
    uint8_t bytes[GROUP_HEADER_BYTES];
    int64_t got = read_bytes(walker, bytes, sizeof(bytes), offset);

    if (got < 0)
        return got == -EIO && walker->walk->tolerant ? 0 : (int)got;
    if (got < (int64_t)sizeof(bytes))
        return 0;
    return group_decode(bytes, walker->seed, offset, ret_header) == 0 &&
           ret_header->length <= GROUP_BYTES_MAX && offset + ret_header->length <= walker->limit;
}

/* The first valid group at or behind offset: 1, 0 at the end, or an error. */
static int next_group(
    struct walker *walker, uint64_t offset, struct group_header *ret_header, uint64_t *ret_offset)
{
    uint32_t block = walker->walk->volume->block_bytes;

    for (; offset + GROUP_HEADER_BYTES <= walker->limit; offset += block) {
        int rc = header_at(walker, offset, ret_header);

        if (rc) {
            *ret_offset = offset;
            return rc;
        }
    }
    return 0;
}

/* Whether a group at or behind offset was written when `sequence` was durable already. */
static int durable_later(struct walker *walker, uint64_t offset, uint64_t sequence)
{
    struct group_header header;
    uint32_t block = walker->walk->volume->block_bytes;
    int rc;

    while ((rc = next_group(walker, offset, &header, &offset)) == 1) {
        if (header.durable_through >= sequence)
            return 1;
        offset += round_up(header.length, block);
    }
    return rc;
}

/* --- the records of a group, in the buffer --- */

/* The next slot from which a record with a sequence of this group passes; length at the end. */
static uint32_t next_record(struct walker *walker, const struct group_header *header,
    uint64_t offset, uint32_t at, struct record *ret_record)
{
    for (; at < header->length; at += SLOT_BYTES)
        if (record_decode(walker->buffer + at, header->length - at, walker->seed, offset + at,
                ret_record) == 0 &&
            ret_record->sequence >= header->first_sequence &&
            ret_record->sequence - header->first_sequence < header->records)
            return at;
    return header->length;
}

static int visit(struct walker *walker, const struct record *record, uint64_t offset)
{
    bool valid = record->data && (!walker->walk->verify_payload || record_payload_valid(record));

    if (!valid)
        report(walker, offset, "the record's bytes fail their CRC");
    walker->result.records++;
    walker->result.highest_sequence = walker->last_sequence = record->sequence;
    return walker->walk->hooks.record(walker->walk->hooks.arg, record, offset, valid);
}

/* Padding is zero, so that a flipped bit shows there too. */
static bool padding_zero(const uint8_t *from, const uint8_t *to)
{
    for (; from < to; from++)
        if (*from)
            return false;
    return true;
}

static int walk_records(struct walker *walker, const struct group_header *header, uint64_t offset)
{
    uint32_t at = GROUP_HEADER_BYTES;
    struct record record;
    int rc = 0;

    while (!rc && at < header->length) {
        uint32_t found = next_record(walker, header, offset, at, &record);

        if (found != at)
            report(walker, offset + at, "not a record where one should be");
        if (found == header->length)
            break;
        at = found + record_slots(&record) * SLOT_BYTES;
        if (record.data && at <= header->length &&
            !padding_zero(walker->buffer + found + record_bytes(&record), walker->buffer + at))
            report(walker, offset + found, "padding behind a record is not zero");
        rc = visit(walker, &record, offset + found);
    }
    return rc;
}

/* Every record and payload, before the group is believed. */
static bool group_whole(struct walker *walker, const struct group_header *header, uint64_t offset)
{
    uint32_t at = GROUP_HEADER_BYTES;

    for (uint32_t i = 0; i < header->records; i++) {
        struct record record;

        if (at >= header->length ||
            record_decode(walker->buffer + at, header->length - at, walker->seed, offset + at,
                &record) != 0 ||
            record.sequence != header->first_sequence + i || !record.data ||
            !record_payload_valid(&record))
            return false;
        at += record_slots(&record) * SLOT_BYTES;
    }
    return at == header->length;
}

/* Reads the group into the buffer; bytes that can't be read count as zeros. */
static int load_group(struct walker *walker, const struct group_header *header, uint64_t offset)
{
    uint32_t block = walker->walk->volume->block_bytes;
    uint64_t length = round_up(header->length, block);
    int rc = need_buffer(walker, length);
    int64_t got;

    if (rc)
        return rc;
    memset(walker->buffer, 0, length);
    got = read_bytes(walker, walker->buffer, length, offset);
    if (got < 0 && (got != -EIO || !walker->walk->tolerant))
        return (int)got;
    for (uint64_t at = 0; got < 0 && at < length; at += block)
        (void)read_bytes(walker, walker->buffer + at, block, offset + at); /* block by block */
    return 0;
}

/* --- from group to group --- */

/* At a place where no group passes. 1: damage, and *offset is where to go on; 0: the end. */
static int after_bad(struct walker *walker, uint64_t *offset, uint64_t resume, uint64_t sequence)
{
    struct group_header header;
    int rc;

    if (walker->find_tail && !BROKEN(TORN_TAIL_KEPT)) {
        rc = durable_later(walker, resume, sequence);
        if (rc <= 0)
            return rc;
    }
    rc = next_group(walker, resume, &header, offset);
    if (rc == 0 && !walker->find_tail)
        *offset = walker->limit;
    return rc;
}

/* After a group's records: what lies between them and the next block. */
static void walk_padding(
    struct walker *walker, const struct group_header *header, uint64_t offset, uint64_t behind)
{
    const struct walk *walk = walker->walk;

    if (padding_zero(walker->buffer + header->length, walker->buffer + (behind - offset)))
        return;
    if (walk->recovering) {
        walker->padding_sequence = header->first_sequence + header->records - 1;
        if (!walker->result.padding_from)
            walker->result.padding_from = offset;
    } else if (!walk->padding_from || offset < walk->padding_from) {
        report(walker, offset, "padding behind a group is not zero");
    }
}

/* The groups whose padding was noted were durable when this one was written: it was zero once. */
static void settle_padding(struct walker *walker, const struct group_header *header)
{
    if (!walker->result.padding_from || header->durable_through < walker->padding_sequence)
        return;
    report(walker, walker->result.padding_from, "padding behind a group is not zero");
    walker->result.padding_from = 0;
}

static int walk_group(struct walker *walker, const struct group_header *header, uint64_t *offset)
{
    uint32_t block = walker->walk->volume->block_bytes;
    uint64_t behind = *offset + round_up(header->length, block);
    int rc = load_group(walker, header, *offset);

    if (rc)
        return rc;
    if (walker->find_tail && !BROKEN(TORN_TAIL_KEPT) && !group_whole(walker, header, *offset)) {
        rc = durable_later(walker, behind, header->first_sequence);
        if (rc < 0)
            return rc;
        if (rc == 0)
            return 1;
    }
    settle_padding(walker, header);
    rc = walk_records(walker, header, *offset);
    walk_padding(walker, header, *offset, behind);
    walker->result.groups = header->number;
    walker->result.end = *offset = behind;
    return rc;
}

static int walk_groups(struct walker *walker)
{
    uint64_t offset = walker->walk->from;
    uint32_t block = walker->walk->volume->block_bytes;
    struct group_header header;
    int rc = 0;

    walker->result.end = offset;
    while (!rc && offset < walker->limit) {
        uint64_t bad = offset;

        rc = header_at(walker, offset, &header);
        if (rc == 1) {
            rc = walk_group(walker, &header, &offset);
            if (rc == 1)
                return 0;
            continue;
        }
        if (rc < 0)
            return rc;
        rc = after_bad(walker, &offset, offset + block, walker->last_sequence + 1);
        if (rc < 0)
            return rc;
        if (rc == 0 && walker->find_tail)
            return 0;
        report(walker, bad, "not a group where one should be");
        walker->result.end = offset;
        rc = 0;
    }
    return rc;
}

int segment_walk(const struct walk *walk, struct walk_result *ret_result)
{
    struct walker walker = {.walk = walk, .seed = segment_seed(walk->segment)};
    int rc = walk->volume->ops->size(walk->segment->file, &walker.file_bytes);

    if (rc)
        return rc;
    walker.find_tail = walk->end == UINT64_MAX;
    walker.last_sequence = walk->after_sequence;
    walker.limit = walker.find_tail ? walker.file_bytes : walk->end;
    rc = need_buffer(&walker, SEARCH_BYTES);
    if (!rc)
        rc = walk_groups(&walker);
    mem_free(walker.buffer);
    if (!rc)
        *ret_result = walker.result;
    return rc;
}
