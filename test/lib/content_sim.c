/* One simulated file between page cache and device.

   A write changes what readers see and marks its sectors dirty. A sync copies dirty sectors to the
   device and clears the marks. A crash decides the fate of each sector that is still dirty on its
   own: all lost, all kept, a coin each (which is reordering), or those up to some point; and the
   file's size, unless it was synced, ends up at the old value, the new one, or between. What a
   reader sees afterwards is what the device holds.

   A failed sync takes the marks away from sectors that did not reach the device, as Linux does
   since 4.13: the reader goes on seeing the new bytes, a second sync succeeds without writing them,
   and they are gone when the page is evicted or the machine restarts. The size is not forgotten that
   way: it is in the file system's journal, which is written or stops everything. */
#include "lib/content_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "lib/need.h"
#include "lib/random_sim.h"

void content_sim_done(struct content_sim *content)
{
    free(content->visible);
    free(content->durable);
    free(content->dirty);
    memset(content, 0, sizeof(*content));
}

static void *grown(void *old, size_t old_bytes, size_t bytes)
{
    uint8_t *new = need_resize(old, bytes);

    memset(new + old_bytes, 0, bytes - old_bytes);
    return new;
}

static void make_room(struct content_sim *content, uint64_t end)
{
    size_t old = content->room, room = old > 0 ? old : 64 * SECTOR_BYTES;

    if (end <= old)
        return;
    while (room < end)
        room *= 2;
    content->visible = grown(content->visible, old, room);
    content->durable = grown(content->durable, old, room);
    content->dirty = grown(content->dirty, old / SECTOR_BYTES, room / SECTOR_BYTES);
    content->room = room;
}

void content_sim_write(
    struct content_sim *content, const void *bytes, size_t length, uint64_t offset)
{
    uint64_t end = offset + length;

    if (length == 0)
        return;
    make_room(content, end);
    memcpy(content->visible + offset, bytes, length);
    for (uint64_t s = offset / SECTOR_BYTES; s <= (end - 1) / SECTOR_BYTES; s++)
        content->dirty[s] = 1;
    if (end > content->visible_size) {
        content->visible_size = end;
        content->size_dirty = true;
    }
}

void content_sim_cut(struct content_sim *content, uint64_t size)
{
    content->reserved_end = 0;
    if (size >= content->visible_size)
        return;
    memset(content->visible + size, 0, content->visible_size - size);
    for (uint64_t s = round_up(size, SECTOR_BYTES) / SECTOR_BYTES; s < content->room / SECTOR_BYTES;
         s++)
        content->dirty[s] = 0;
    if (size % SECTOR_BYTES != 0)
        content->dirty[size / SECTOR_BYTES] = 1;
    content->visible_size = size;
    content->size_dirty = true;
}

static void keep_sector(struct content_sim *content, uint64_t sector)
{
    uint64_t at = sector * SECTOR_BYTES;

    memcpy(content->durable + at, content->visible + at, SECTOR_BYTES);
}

static uint64_t sector_count(const struct content_sim *content)
{
    return content->room / SECTOR_BYTES;
}

static void settle_size(struct content_sim *content, uint64_t size)
{
    if (size < content->room)
        memset(content->durable + size, 0, content->room - size);
    content->durable_size = size;
    content->size_dirty = false;
}

void content_sim_sync(struct content_sim *content)
{
    for (uint64_t s = 0; s < sector_count(content); s++) {
        if (content->dirty[s])
            keep_sector(content, s);
        content->dirty[s] = 0;
    }
    if (content->size_dirty)
        settle_size(content, content->visible_size);
}

void content_sim_sync_lost(struct content_sim *content, struct random_sim *random)
{
    bool all = random_sim_one_in(random, 2);

    for (uint64_t s = 0; s < sector_count(content); s++) {
        if (content->dirty[s] && !all && random_sim_one_in(random, 2))
            keep_sector(content, s);
        content->dirty[s] = 0;
    }
    if (content->size_dirty && random_sim_one_in(random, 2))
        settle_size(content, content->visible_size);
}

void content_sim_evict(struct content_sim *content)
{
    for (uint64_t s = 0; s < sector_count(content); s++) {
        uint64_t at = s * SECTOR_BYTES;

        if (content->dirty[s] || at >= content->visible_size)
            continue;
        memcpy(content->visible + at, content->durable + at, SECTOR_BYTES);
        if (at + SECTOR_BYTES > content->visible_size)
            memset(content->visible + content->visible_size, 0,
                at + SECTOR_BYTES - content->visible_size);
    }
}

enum fate { FATE_LOST, FATE_KEPT, FATE_COIN, FATE_PREFIX, FATES };

static bool sector_kept(enum fate fate, uint64_t sector, uint64_t until, struct random_sim *random)
{
    switch (fate) {
    case FATE_KEPT:
        return true;
    case FATE_COIN:
        return random_sim_one_in(random, 2);
    case FATE_PREFIX:
        return sector < until;
    case FATE_LOST:
    case FATES:
        break;
    }
    return false;
}

/* A size from the device's former to the reader's last, either way round. */
static uint64_t crash_size(const struct content_sim *content, struct random_sim *random)
{
    uint64_t low = content->durable_size, high = content->visible_size;

    if (!content->size_dirty || low == high || random_sim_one_in(random, 3))
        return low;
    if (high < low || random_sim_one_in(random, 2))
        return high;
    low += random_sim_below(random, (high - low) / SECTOR_BYTES + 1) * SECTOR_BYTES;
    return low < high ? low : high;
}

static void lose_sector(
    struct content_sim *content, uint64_t sector, const struct content_sim *stale)
{
    uint64_t at = sector * SECTOR_BYTES;

    if (at >= content->durable_size && stale != NULL && at + SECTOR_BYTES <= stale->room)
        memcpy(content->durable + at, stale->durable + at, SECTOR_BYTES);
}

void content_sim_crash(
    struct content_sim *content, struct random_sim *random, const struct content_sim *stale)
{
    uint64_t sectors = sector_count(content);
    enum fate fate = (enum fate)random_sim_below(random, FATES);
    uint64_t until = random_sim_below(random, sectors + 1);
    uint64_t size = crash_size(content, random);

    for (uint64_t s = 0; s < sectors; s++) {
        if (!content->dirty[s])
            continue;
        if (sector_kept(fate, s, until, random))
            keep_sector(content, s);
        else
            lose_sector(content, s, stale);
        content->dirty[s] = 0;
    }
    settle_size(content, size);
    content->visible_size = size;
    content->reserved_end = 0;
    if (sectors > 0)
        memcpy(content->visible, content->durable, content->room);
}

uint8_t content_sim_device_byte(const struct content_sim *content, uint64_t offset)
{
    if (content->dirty[offset / SECTOR_BYTES])
        return content->visible[offset];
    return content->durable[offset];
}

void content_sim_flip(struct content_sim *content, uint64_t offset, uint8_t mask)
{
    content->durable[offset] ^= mask;
    content->visible[offset] ^= mask;
}
