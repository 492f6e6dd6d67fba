/* Making durable what was applied.

   A flush writes the memtable to a sorted file and the manifest, with syncs; it is finished when no
   memtable waits for it any more. RocksDB 7.8 says so too early: once it has recovered from a full disk,
   its flushes return success without having waited, and an ingestion, which flushes first, would
   take place beside them; a crash could then keep a later apply and lose an earlier one. So this
   asks for the number of memtables that are not flushed yet, and ingestion only begins when there
   are none.

   What can fail: the device; RocksDB keeps the memtables, tries again by itself when there is
   space, and refuses writes until then. */
#include <errno.h>
#include <time.h>

#include "store/catalogue_rocksdb_priv.h"

#define TURN_MS   2
#define TURNS_MAX 30000

static int property(struct catalogue_rocksdb *c, const char *name, uint64_t *ret_value)
{
    /* Every name used here is known to RocksDB. */
    return rocksdb_property_int(c->db, name, ret_value) == 0 ? 0 : -EIO;
}

/* What RocksDB answers to writes since a flush failed in the background. */
static int background_failure(struct catalogue_rocksdb *c)
{
    char *text = NULL;
    rocksdb_writebatch_t *nothing = rocksdb_writebatch_create();
    if (!nothing)
        return -ENOMEM;
    rocksdb_write(c->db, c->write_options, nothing, &text);
    rocksdb_writebatch_destroy(nothing);
    return text ? catalogue_failed(c, text) : -EIO;
}

static int wait_for_memtables(struct catalogue_rocksdb *c, uint64_t errors_before)
{
    const struct timespec turn = {.tv_nsec = TURN_MS * 1000000l};
    for (unsigned i = 0; i < TURNS_MAX; i++) {
        uint64_t waiting = 0, errors = 0;
        int rc = property(c, "rocksdb.num-immutable-mem-table", &waiting);
        if (rc == 0)
            rc = property(c, "rocksdb.background-errors", &errors);
        if (rc < 0 || waiting == 0)
            return rc;
        if (errors != errors_before)
            return background_failure(c);
        (void)nanosleep(&turn, NULL); /* woken early it looks early */
    }
    return -ETIMEDOUT;
}

int catalogue_flush(struct catalogue_rocksdb *c)
{
    uint64_t entries = 0, waiting = 0, errors = 0;
    char *text = NULL;
    int rc = property(c, "rocksdb.num-entries-active-mem-table", &entries);
    if (rc == 0)
        rc = property(c, "rocksdb.num-immutable-mem-table", &waiting);
    if (rc == 0)
        rc = property(c, "rocksdb.background-errors", &errors);
    if (rc < 0 || (entries == 0 && waiting == 0))
        return rc;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    if (!options)
        return -ENOMEM;
    rocksdb_flushoptions_set_wait(options, 1);
    rocksdb_flush(c->db, options, &text);
    rocksdb_flushoptions_destroy(options);
    return text ? catalogue_failed(c, text) : wait_for_memtables(c, errors);
}
