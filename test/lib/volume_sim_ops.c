/* The simulated volume from inside: the table of operations that a store calls.

   Each operation takes the lock, counts itself if it changes something, and either does its work,
   does some of it because the machine stops in it, or refuses because it has stopped. Then come the
   faults that were armed. What callers must keep to (volume.h) is checked on the way: whole blocks,
   in order, once in the life of a handle, nothing without the lock, nothing through a read-only
   volume. */
#include "lib/volume_sim_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <shoal/error.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "lib/need.h"

static struct sim_volume *own(struct volume *volume)
{
    return (struct sim_volume *)volume;
}

static struct sim_handle *handle_of(struct volume_file *file)
{
    return (struct sim_handle *)file;
}

static struct volume_sim *enter(struct sim_volume *volume)
{
    (void)pthread_mutex_lock(&volume->sim->lock); /* never fails for a plain mutex */
    return volume->sim;
}

static int leave(struct volume_sim *sim, int rc)
{
    (void)pthread_mutex_unlock(&sim->lock); /* held since enter */
    return rc;
}

/* A coin for what a stopped or failed call has done. */
static bool half(struct volume_sim *sim)
{
    return random_sim_one_in(&sim->random, 2);
}

static void must_write(struct sim_volume *volume, const char *what)
{
    if (volume->read_only)
        sim_violation(volume->sim, "%s through a read-only volume", what);
    else if (!volume->locked)
        sim_violation(volume->sim, "%s without the lock", what);
}

/* --- names --- */

static int sim_lock(struct volume *volume, struct shoal_error *error)
{
    struct volume_sim *sim = enter(own(volume));
    int rc = 0;

    if (sim->crashed)
        rc = error_set(error, -EIO, NULL, 0, "the simulated machine has stopped");
    else if (sim->locked)
        rc = error_set(error, SHOAL_E_BUSY, NULL, 0, "the simulated store is in use");
    else
        sim->locked = own(volume)->locked = true;
    return leave(sim, rc);
}

static int handle_new(
    struct sim_volume *owner, struct sim_segment *segment, struct volume_file **ret_file)
{
    struct sim_handle *handle = mem_zero(1, sizeof(*handle));

    if (handle == NULL)
        return -ENOMEM;
    handle->file.ring_fd = -1;
    handle->owner = owner;
    handle->segment = segment;
    segment->handles++;
    *ret_file = &handle->file;
    return 0;
}

static struct sim_segment *segment_add(struct volume_sim *sim, uint64_t id)
{
    struct sim_segment *segment = need_zero(sizeof(*segment));

    segment->id = id;
    segment->named = true;
    sim->segments =
        need_resize(sim->segments, (sim->segment_count + 1) * sizeof(struct sim_segment *));
    sim->segments[sim->segment_count++] = segment;
    return segment;
}

static int sim_create(struct volume *volume, uint64_t id, struct volume_file **ret_file)
{
    struct volume_sim *sim = enter(own(volume));
    enum sim_step step = sim_step(sim, "create", id, 0, 0);

    must_write(own(volume), "create");
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (sim_find(sim, id) != NULL)
        return leave(sim, step == SIM_STEP_GO ? -EEXIST : -EIO);
    if (step == SIM_STEP_HALF || sim_strikes(sim, VOLUME_SIM_CREATE_EIO)) {
        if (half(sim))
            (void)segment_add(sim, id);
        return leave(sim, -EIO);
    }
    return leave(sim, handle_new(own(volume), segment_add(sim, id), ret_file));
}

static int sim_open(struct volume *volume, uint64_t id, struct volume_file **ret_file)
{
    struct volume_sim *sim = enter(own(volume));
    struct sim_segment *segment = sim_find(sim, id);

    if (sim->crashed)
        return leave(sim, -EIO);
    if (segment == NULL)
        return leave(sim, -ENOENT);
    return leave(sim, handle_new(own(volume), segment, ret_file));
}

static void sim_close(struct volume_file *file)
{
    struct volume_sim *sim;

    if (file == NULL)
        return;
    sim = enter(handle_of(file)->owner);
    handle_of(file)->segment->handles--;
    sim_sweep(sim);
    mem_free(handle_of(file));
    (void)leave(sim, 0);
}

static int sim_remove(struct volume *volume, uint64_t id)
{
    struct volume_sim *sim = enter(own(volume));
    enum sim_step step = sim_step(sim, "remove", id, 0, 0);
    struct sim_segment *segment = sim_find(sim, id);

    must_write(own(volume), "remove");
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (segment == NULL)
        return leave(sim, step == SIM_STEP_GO ? -ENOENT : -EIO);
    if (step == SIM_STEP_GO || half(sim)) {
        segment->named = false;
        sim_sweep(sim);
    }
    return leave(sim, step == SIM_STEP_GO ? 0 : -EIO);
}

static int sim_list(struct volume *volume, int (*visit)(void *arg, uint64_t id), void *arg)
{
    struct volume_sim *sim = enter(own(volume));
    size_t count = sim->segment_count;
    uint64_t *ids = need_zero(count * sizeof(*ids));
    int rc = sim->crashed ? -EIO : 0;

    count = volume_sim_segments(sim, ids, count);
    (void)leave(sim, 0);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = visit(arg, ids[i]);
    free(ids);
    return rc;
}

static void names_durable(struct volume_sim *sim, bool all)
{
    for (size_t i = 0; i < sim->segment_count; i++) {
        if (all || half(sim))
            sim->segments[i]->named_durable = sim->segments[i]->named;
    }
    sim_sweep(sim);
}

static int sim_dir_sync(struct volume *volume)
{
    struct volume_sim *sim = enter(own(volume));
    enum sim_step step = sim_step(sim, "dir_sync", 0, 0, 0);

    must_write(own(volume), "dir_sync");
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (step == SIM_STEP_HALF || sim_strikes(sim, VOLUME_SIM_DIR_SYNC_EIO)) {
        names_durable(sim, false);
        return leave(sim, -EIO);
    }
    names_durable(sim, true);
    return leave(sim, 0);
}

/* --- bytes --- */

static void judge_write(
    struct sim_handle *handle, const void *buffer, size_t length, uint64_t offset)
{
    struct volume_sim *sim = handle->owner->sim;
    uint64_t id = handle->segment->id;

    must_write(handle->owner, "write");
    if (length % VOLUME_SIM_BLOCK_BYTES != 0 || offset % VOLUME_SIM_BLOCK_BYTES != 0 ||
        (uintptr_t)buffer % VOLUME_SIM_BLOCK_BYTES != 0 || length == 0)
        sim_violation(sim,
            "write of %zu bytes at %" PRIu64 " of segment %" PRIx64
            " is not of whole, aligned blocks",
            length, offset, id);
    if (offset < handle->written_end)
        sim_violation(sim,
            "write at %" PRIu64 " of segment %" PRIx64 " behind %" PRIu64
            ": out of order, or a block again",
            offset, id, handle->written_end);
    if (offset + length > handle->written_end)
        handle->written_end = offset + length;
}

/* Some sectors of a write that did not succeed. */
static void write_some(
    struct sim_handle *handle, const uint8_t *bytes, size_t length, uint64_t offset)
{
    struct volume_sim *sim = handle->owner->sim;
    size_t part = random_sim_below(&sim->random, length / SECTOR_BYTES + 1) * SECTOR_BYTES;

    content_sim_write(&handle->segment->content, bytes, part, offset);
}

static uint64_t growth(const struct content_sim *content, uint64_t end)
{
    uint64_t has = content->visible_size > content->reserved_end ? content->visible_size
                                                                 : content->reserved_end;

    has = round_up(has, VOLUME_SIM_BLOCK_BYTES);
    end = round_up(end, VOLUME_SIM_BLOCK_BYTES);
    return end > has ? end - has : 0;
}

static int sim_write_at(
    struct volume_file *file, const void *buffer, size_t length, uint64_t offset)
{
    struct sim_handle *handle = handle_of(file);
    struct volume_sim *sim = enter(handle->owner);
    enum sim_step step = sim_step(sim, "write", handle->segment->id, offset, length);

    judge_write(handle, buffer, length, offset);
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (step == SIM_STEP_HALF || sim_strikes(sim, VOLUME_SIM_WRITE_EIO)) {
        write_some(handle, buffer, length, offset);
        handle->written_end = handle->synced_end;
        return leave(sim, -EIO);
    }
    if (sim_full(sim, growth(&handle->segment->content, offset + length))) {
        handle->written_end = handle->synced_end;
        return leave(sim, -ENOSPC);
    }
    content_sim_write(&handle->segment->content, buffer, length, offset);
    return leave(sim, 0);
}

/* The count to return, after the faults of reading; negative: none. */
static int64_t read_length(struct volume_sim *sim, uint64_t size, size_t length, uint64_t offset)
{
    size_t count = 0;

    if (sim->crashed || sim_strikes(sim, VOLUME_SIM_READ_EIO))
        return -EIO;
    if (offset < size)
        count = length < size - offset ? length : (size_t)(size - offset);
    if (count > 0 && sim_strikes(sim, VOLUME_SIM_READ_SHORT))
        count = random_sim_below(&sim->random, count);
    return (int64_t)count;
}

static int64_t sim_read_at(struct volume_file *file, void *buffer, size_t length, uint64_t offset)
{
    struct content_sim *content = &handle_of(file)->segment->content;
    struct volume_sim *sim = enter(handle_of(file)->owner);
    int64_t count = read_length(sim, content->visible_size, length, offset);

    if (count > 0)
        memcpy(buffer, content->visible + offset, (size_t)count);
    (void)leave(sim, 0);
    return count;
}

static int64_t sim_read_direct(
    struct volume_file *file, void *buffer, size_t length, uint64_t offset)
{
    struct content_sim *content = &handle_of(file)->segment->content;
    struct volume_sim *sim = enter(handle_of(file)->owner);
    int64_t count = read_length(sim, content->visible_size, length, offset);

    for (int64_t i = 0; i < count; i++)
        ((uint8_t *)buffer)[i] = content_sim_device_byte(content, offset + (uint64_t)i);
    (void)leave(sim, 0);
    return count;
}

static int sim_reserve(struct volume_file *file, uint64_t end)
{
    struct sim_handle *handle = handle_of(file);
    struct content_sim *content = &handle->segment->content;
    struct volume_sim *sim = enter(handle->owner);
    enum sim_step step = sim_step(sim, "reserve", handle->segment->id, end, 0);

    must_write(handle->owner, "reserve");
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (sim_full(sim, growth(content, end)))
        return leave(sim, step == SIM_STEP_GO ? -ENOSPC : -EIO);
    if ((step == SIM_STEP_GO || half(sim)) && end > content->reserved_end)
        content->reserved_end = end;
    return leave(sim, step == SIM_STEP_GO ? 0 : -EIO);
}

static int sim_trim(struct volume_file *file, uint64_t end)
{
    struct sim_handle *handle = handle_of(file);
    struct volume_sim *sim = enter(handle->owner);
    enum sim_step step = sim_step(sim, "trim", handle->segment->id, end, 0);

    must_write(handle->owner, "trim");
    if (step == SIM_STEP_DEAD)
        return leave(sim, -EIO);
    if (step == SIM_STEP_GO || half(sim))
        content_sim_cut(&handle->segment->content, end);
    return leave(sim, step == SIM_STEP_GO ? 0 : -EIO);
}

/* One sync of a content, with what can happen to it. */
static int sync_content(struct volume_sim *sim, struct content_sim *content, enum sim_step step)
{
    if (step == SIM_STEP_DEAD)
        return -EIO;
    if (step == SIM_STEP_HALF) {
        if (half(sim))
            content_sim_sync(content);
        return -EIO;
    }
    if (sim_strikes(sim, VOLUME_SIM_SYNC_EIO_LOST)) {
        content_sim_sync_lost(content, &sim->random);
        return -EIO;
    }
    content_sim_sync(content);
    return sim_strikes(sim, VOLUME_SIM_SYNC_EIO) ? -EIO : 0;
}

static int sim_sync(struct volume_file *file)
{
    struct sim_handle *handle = handle_of(file);
    struct volume_sim *sim = enter(handle->owner);
    enum sim_step step = sim_step(sim, "sync", handle->segment->id, 0, 0);
    int rc;

    must_write(handle->owner, "sync");
    rc = sync_content(sim, &handle->segment->content, step);
    if (rc == 0)
        handle->synced_end = handle->written_end;
    else
        handle->written_end = handle->synced_end;
    return leave(sim, rc);
}

static int sim_size(struct volume_file *file, uint64_t *ret_bytes)
{
    struct volume_sim *sim = enter(handle_of(file)->owner);

    if (sim->crashed)
        return leave(sim, -EIO);
    *ret_bytes = handle_of(file)->segment->content.visible_size;
    return leave(sim, 0);
}

static int sim_usage(struct volume *volume, uint64_t *ret_bytes)
{
    struct volume_sim *sim = enter(own(volume));

    if (sim->crashed)
        return leave(sim, -EIO);
    *ret_bytes = sim_used(sim);
    return leave(sim, 0);
}

/* --- the manifest --- */

static int manifest_name(struct volume_sim *sim, bool fails)
{
    enum sim_step step;

    if (sim->manifest_named_durable)
        return 0;
    step = sim_step(sim, "manifest dir_sync", 0, 0, 0);
    if (step == SIM_STEP_DEAD)
        return -EIO;
    sim->manifest_named_durable = (step == SIM_STEP_GO && !fails) || half(sim);
    return step == SIM_STEP_GO && !fails ? 0 : -EIO;
}

static int sim_manifest_read(struct volume *volume, uint8_t **ret_bytes, size_t *ret_length)
{
    struct volume_sim *sim = enter(own(volume));
    size_t size = sim->manifest.visible_size;
    uint8_t *bytes;
    int rc = sim->crashed || sim_strikes(sim, VOLUME_SIM_READ_EIO) ? -EIO : 0;

    if (rc == 0 && sim->manifest_named && !own(volume)->read_only)
        rc = sync_content(
            sim, &sim->manifest, sim_step(sim, "manifest sync before reading", 0, 0, 0));
    if (rc == 0 && sim->manifest_named && !own(volume)->read_only)
        rc = manifest_name(sim, false);
    if (rc != 0)
        return leave(sim, rc);
    bytes = mem_alloc(size);
    if (bytes == NULL)
        return leave(sim, -ENOMEM);
    for (size_t i = 0; i < size; i++)
        bytes[i] = content_sim_device_byte(&sim->manifest, i);
    *ret_bytes = bytes;
    *ret_length = size;
    return leave(sim, 0);
}

static int manifest_cut(struct volume_sim *sim, uint64_t version)
{
    enum sim_step step;

    if (sim->manifest.visible_size == version)
        return 0;
    step = sim_step(sim, "manifest cut", 0, version, 0);
    if (step == SIM_STEP_DEAD)
        return -EIO;
    if (step == SIM_STEP_GO || half(sim))
        content_sim_cut(&sim->manifest, version);
    if (step == SIM_STEP_HALF)
        return -EIO;
    return sync_content(sim, &sim->manifest, sim_step(sim, "manifest cut sync", 0, 0, 0));
}

static int manifest_write(
    struct volume_sim *sim, uint64_t version, const void *bytes, size_t length, bool fails)
{
    enum sim_step step = sim_step(sim, "manifest write", 0, version, length);

    if (step == SIM_STEP_DEAD)
        return -EIO;
    if (step == SIM_STEP_HALF || fails) {
        content_sim_write(
            &sim->manifest, bytes, random_sim_below(&sim->random, length + 1), version);
        return -EIO;
    }
    if (sim_full(sim, growth(&sim->manifest, version + length)))
        return -ENOSPC;
    content_sim_write(&sim->manifest, bytes, length, version);
    return 0;
}

static int sim_manifest_append(
    struct volume *volume, uint64_t version, const void *bytes, size_t length)
{
    struct volume_sim *sim = enter(own(volume));
    /* Which of its steps an armed fault strikes: 0 the write, 1 the sync, 2 the name. */
    bool strikes = !sim->crashed && sim_strikes(sim, VOLUME_SIM_MANIFEST_EIO);
    uint64_t at = random_sim_below(&sim->random, sim->manifest_named_durable ? 2 : 3);
    int rc;

    must_write(own(volume), "append to the manifest");
    if (sim->crashed)
        return leave(sim, -EIO);
    if (sim->manifest.visible_size < version)
        return leave(sim, SHOAL_E_CONFLICT);
    sim->manifest_named = true;
    rc = manifest_cut(sim, version);
    if (rc == 0)
        rc = manifest_write(sim, version, bytes, length, strikes && at == 0);
    if (rc == 0) {
        enum sim_step step = sim_step(sim, "manifest sync", 0, 0, 0);

        if (strikes && at == 1) {
            sim->armed[half(sim) ? VOLUME_SIM_SYNC_EIO : VOLUME_SIM_SYNC_EIO_LOST] = 0;
        }
        rc = sync_content(sim, &sim->manifest, step);
    }
    if (rc == 0)
        rc = manifest_name(sim, strikes && at == 2);
    return leave(sim, rc);
}

static void sim_done(struct volume *volume)
{
    struct volume_sim *sim;

    if (volume == NULL)
        return;
    sim = enter(own(volume));
    if (own(volume)->locked)
        sim->locked = false;
    sim->volumes_open--;
    (void)leave(sim, 0);
    free(own(volume));
}

const struct volume_ops sim_volume_ops = {
    .lock = sim_lock,
    .create = sim_create,
    .open = sim_open,
    .close = sim_close,
    .remove = sim_remove,
    .list = sim_list,
    .write_at = sim_write_at,
    .read_at = sim_read_at,
    .read_direct = sim_read_direct,
    .reserve = sim_reserve,
    .trim = sim_trim,
    .sync = sim_sync,
    .dir_sync = sim_dir_sync,
    .size = sim_size,
    .usage = sim_usage,
    .manifest_read = sim_manifest_read,
    .manifest_append = sim_manifest_append,
    .done = sim_done,
};
