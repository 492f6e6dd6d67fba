/* Bit rot: one bit of a finished segment flips, before or while the store is open.

   That may cost the one object whose bytes it hit, which then says so: it must not show other bytes,
   nor be taken for absent, and nothing else may change. check must find it. */
#include <errno.h>

#include "sim/sim.h"

struct bit {
    uint64_t segment_id, offset;
    uint8_t mask;
};

/* In any segment of the store but the last, whose end a flipped bit could make look torn; files that
   a crash left without an entry in the manifest are nobody's. False: there is no such segment. */
static bool choose_bit(struct sim *sim, struct bit *ret_bit)
{
    const struct manifest *manifest = &sim->store->manifest;
    uint64_t id, size;

    if (manifest->count < 2)
        return false;
    id = manifest->segments[random_sim_below(&sim->random, manifest->count - 1)].id;
    if (volume_sim_segment_size(sim->device, id, &size) != 0)
        return sim_mismatch(sim, "segment %llx has no file", (unsigned long long)id);
    *ret_bit = (struct bit){.segment_id = id,
        .offset = random_sim_below(&sim->random, size),
        .mask = (uint8_t)(1u << random_sim_below(&sim->random, 8))};
    return true;
}

static void flip(struct sim *sim, const struct bit *bit)
{
    sim_note(sim, "flip a bit of segment %llx at %llu", (unsigned long long)bit->segment_id,
        (unsigned long long)bit->offset);
    sim->rotten = true;
    if (volume_sim_flip(sim->device, bit->segment_id, bit->offset, bit->mask) != 0)
        sim_mismatch(sim, "segment %llx was cut", (unsigned long long)bit->segment_id);
}

static bool look(struct sim *sim)
{
    unsigned damaged = 0;

    for (unsigned i = 0; i < MODEL_SLOTS; i++) {
        const struct slot *slot = &sim->model.slots[i];
        int64_t code;
        uint64_t seen = verify_observe(sim, slot, &code);

        if (seen == model_visible(slot))
            continue;
        if (code != SHOAL_E_CORRUPT)
            return sim_mismatch(sim, "a flipped bit makes slot %u show %llu instead of %llu (%lld)",
                i, (unsigned long long)seen, (unsigned long long)model_visible(slot),
                (long long)code);
        damaged++;
    }
    if (damaged > 1)
        return sim_mismatch(sim, "one flipped bit costs %u objects", damaged);
    return true;
}

static void count_finding(void *arg, const struct shoal_finding *finding)
{
    ++*(uint64_t *)arg;
}

static bool check_finds_it(struct sim *sim)
{
    struct shoal_check_report report = {0};
    uint64_t findings = 0;
    int rc = shoal_check(sim->store, count_finding, NULL, &findings, &report);

    if (rc != 0)
        return sim_mismatch(sim, "check after a flipped bit: %d", rc);
    if (report.damaged == 0 || findings == 0)
        return sim_mismatch(sim, "check does not find the flipped bit");
    return true;
}

bool sim_rot(struct sim *sim)
{
    struct bit bit = {0}; /* gcc cannot tell that choose_bit fills it */

    if (!choose_bit(sim, &bit))
        return sim->failure[0] == 0;
    if (random_sim_one_in(&sim->random, 2)) {
        flip(sim, &bit);
        return look(sim) && check_finds_it(sim);
    }
    if (!sim_close_cleanly(sim))
        return false;
    flip(sim, &bit);
    return sim_open_rotten(sim) && look(sim) && check_finds_it(sim);
}
