/* Inside of an open store: its parts and what they share. */
#ifndef STORE_STORE_PRIV_H
#define STORE_STORE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "store/catalogue.h"
#include "store/change_queue.h"
#include "store/index.h"
#include "store/key.h"
#include "store/log.h"
#include "store/manifest.h"
#include "store/meta.h"
#include "store/segment.h"
#include "store/store.h"

/* --- the store's own namespace: bucket name of length 0 (system.c) --- */

#define SYSTEM_KEY_MAX 72u

struct system_key {
    struct key key;
    uint8_t bytes[SYSTEM_KEY_MAX];
};
void system_key_bucket(struct system_key *ret_key, const char *name, size_t length);
void system_key_chunk(struct system_key *ret_key, uint64_t blob_id, uint64_t number);
void system_key_open(struct system_key *ret_key, uint64_t blob_id);
void system_key_reap(struct system_key *ret_key, uint64_t blob_id);

/* The data of open and reap records: the user's key that the blob is or was for. */
#define OWNER_MAX (1u + 255u + 1024u)
void owner_encode(struct record *record, const struct key *key, uint8_t ret_bytes[OWNER_MAX]);
/* Points into the record's data. 0 or SHOAL_E_CORRUPT. */
int owner_decode(const struct record *record, struct key *ret_key);

struct hash128 store_hash(const struct shoal *store, const struct key *key);

/* --- buckets (bucket.c) --- */

struct bucket {
    char name[SHOAL_BUCKET_MAX + 1];
    uint8_t name_length;
    bool is_public;
    bool deleting; /* no new writes */
    int64_t created_ms;
    _Atomic uint64_t writes; /* in flight */
};

struct bucket_table {
    pthread_rwlock_t lock;
    pthread_mutex_t change; /* one change at a time; taken before lock */
    struct bucket **buckets; /* by name */
    size_t count, capacity;
};

int bucket_table_init(struct bucket_table *table);
void bucket_table_done(struct bucket_table *table);
/* From a record found at open. */
int bucket_load(struct shoal *store, const struct record *record);
/* Counts a write in, so that the bucket can't be deleted under it: 0, SHOAL_E_NO_BUCKET, or
   SHOAL_E_CORRUPT when the bucket's own record was damaged at open. name ends in a NUL. */
int bucket_enter(struct shoal *store, const char *name, size_t length, struct bucket **ret_bucket);
void bucket_leave(struct bucket *bucket);

/* --- one write in flight per key (pending.c) --- */

#define PENDING_SHARDS 64u
#define PENDING_CHAINS 256u /* a shard's; tens of thousands of writes may be in flight */
struct pending_node {
    struct hash128 hash;
    struct pending_node *next;
};
struct pending_shard {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pending_node *chains[PENDING_CHAINS];
} __attribute__((aligned(64)));
struct pending_table {
    struct pending_shard shards[PENDING_SHARDS];
};
void pending_init(struct pending_table *table);
void pending_done(struct pending_table *table);
/* Blocks while another write to this hash is in flight; without threads it commits it. */
void pending_enter(struct shoal *store, struct pending_node *node, struct hash128 hash);
void pending_leave(struct shoal *store, struct pending_node *node);

/* --- finding what a write replaces (lookup.c) --- */

struct found {
    struct prev prev;
    struct place place;
    uint64_t blob_id;
    uint64_t blob_bytes;
    enum record_kind kind; /* 0 when the record can't be read */
};
/* Reads the candidates' heads until one has this key. 1: found, 0: none, or an error. A candidate
   that can't be read counts as found if its footer has the same 128-bit hash. */
int store_lookup(
    struct shoal *store, const struct key *key, struct hash128 hash, struct found *ret_found);
/* The same, and the record itself if found->kind is not 0; it points into buffer (RECORD_HEAD_MAX
   bytes). */
int store_lookup_head(struct shoal *store, const struct key *key, struct hash128 hash,
    uint8_t *buffer, struct record *ret_record, struct found *ret_found);
/* Reads the head of the record at place into buffer (RECORD_HEAD_MAX bytes). */
int store_read_head(
    struct shoal *store, struct place place, uint8_t *buffer, struct record *ret_record);

/* --- writing (write.c) --- */

/* What is to be written under a user's key, before anything is looked up. */
struct write_draft {
    struct key key;
    enum record_kind kind; /* OBJECT, BLOB or TOMBSTONE */
    struct object_meta meta;
    int64_t time_ms;
    const void *data;
    uint32_t data_length;
    uint64_t open_blob; /* BLOB: whose open record goes with this write */
};
/* Starts the write; done is called as shoal_put_start says. */
int write_start(
    struct shoal *store, const struct write_draft *draft, shoal_done_fn *done, void *done_arg);
/* The same, waiting. */
int write_run(struct shoal *store, const struct write_draft *draft, struct shoal_stat *ret_stat);
/* Content type and times from what the caller gave; a type that is too long is SHOAL_E_TOO_LARGE. */
int write_attrs(struct shoal *store, const struct shoal_attrs *attrs, struct write_draft *draft);

/* Records of the store's own namespace, written in one batch and waited for. */
int write_batch(struct shoal *store, struct log_record *records, unsigned count);
/* Fills one; found: what it replaces, NULL if nothing. meta must stay until it is written. */
void write_system_record(struct shoal *store, struct log_record *ret_record, enum record_kind kind,
    const struct key *key, const uint8_t *meta, uint32_t meta_length, const struct found *found);
/* Looks up, fills and writes one. A tombstone of something absent is SHOAL_E_ABSENT. */
int write_system(struct shoal *store, enum record_kind kind, const struct system_key *key,
    const uint8_t *meta, uint32_t meta_length);

/* --- blobs whose chunks are to go (reap.c) --- */

struct reap {
    struct reap *next;
    uint64_t blob_id;
    uint64_t bytes;
    uint64_t chunks; /* left to delete, once counted */
    bool counted;
    bool is_open; /* its record is an open record, not a reap record */
};
struct reaper {
    pthread_mutex_t lock;
    struct reap *first;
    uint64_t bytes;
};
void reaper_init(struct reaper *reaper);
void reaper_done(struct reaper *reaper);
struct reap *reap_new(uint64_t blob_id, uint64_t bytes, bool is_open);
/* Takes reap. Any thread. */
void reaper_add(struct shoal *store, struct reap *reap);
/* From an open or reap record found at open. Its blob is dead, unless bit rot took the record that
   superseded this one: so the object is asked first. */
int reap_load(struct shoal *store, const struct record *record);
uint64_t reaper_bytes(struct shoal *store);
uint64_t blob_id_new(struct shoal *store);

/* --- the way into the catalogue (feed.c) --- */

struct feed {
    pthread_mutex_t lock; /* guards all but the blocks' contents */
    pthread_cond_t changed; /* the queue shrank, the catalogue caught up, or it failed */
    pthread_cond_t work; /* for the cataloguer */
    struct change_queue queue;
    uint64_t fed_sequence; /* the last one published */
    bool wanted; /* the catalogue is to be opened */
    bool running; /* publishing queues its changes */
    bool caught_up; /* and what came before is in the catalogue */
    unsigned unseen; /* writes since opening that nobody wanted listed yet */
    unsigned waiters, users;
    unsigned failures;
    int failure; /* the last one's code */
    struct catalogue *filling; /* the cataloguer's; others use it between wait and release */
};
void feed_init(struct feed *feed);
void feed_done(struct feed *feed);
/* On the committer's thread, for each object put or deleted. */
void feed_publish(struct shoal *store, const struct record *record, uint64_t sequence);
/* After each round of the committer. */
void feed_moved(struct shoal *store);
/* Forgets what was published above the durable sequence and lost. */
void feed_rollback(struct shoal *store);
/* Blocks while the catalogue is too far behind. */
void feed_throttle(struct shoal *store);
/* Returns when the catalogue shows all that was published at the call; opens it first. After 0 the
   caller may use the catalogue until it calls feed_release. */
int feed_wait(struct shoal *store, struct catalogue **ret_catalogue);
void feed_release(struct shoal *store);
/* Blocks until there is something for store_catalogue_step; false when the store stops. */
bool feed_wait_work(struct shoal *store);
/* At close, alone: applies what is left and makes it durable. */
int feed_close(struct shoal *store);

/* --- the index follows the log (publish.c) --- */

/* Shows the record: the index, the live bytes. replaying: what it replaces may be missing, if that
   was damaged. 0 or -ENOMEM. */
int store_show(
    struct shoal *store, struct segment *segment, const struct log_entry *entry, bool replaying);
/* Takes it back. */
void store_unshow(struct shoal *store, struct segment *segment, const struct log_entry *entry);

/* --- recovery (recover.c) --- */

/* Reads the manifest (or makes a store), opens the segments and replays them. */
int store_recover(struct shoal *store, struct shoal_error *error);
/* Above every segment id that was ever durable, orphans included. */
int store_next_segment_id(struct shoal *store, uint64_t *ret_id);
/* Removes the files of segments whose creation a crash cut short. */
void store_remove_unborn(struct shoal *store);
/* Records where the old tails end and seals them, before the first append. */
int store_seal_tails(struct shoal *store, struct shoal_error *error);

/* Whether the files are those that the manifest speaks of (recover_files.c): that of a segment about to
   be replayed; those behind the last one named; any, of a store without a manifest. */
int store_check_file(struct shoal *store, struct segment *segment,
    const struct manifest_segment *named, struct shoal_error *error);
int store_check_forgotten(struct shoal *store, struct shoal_error *error);
int store_check_unused(struct shoal *store, struct shoal_error *error);

struct shoal {
    struct store_config config;
    struct manifest manifest;
    struct segment_table segments;
    struct index *index;
    struct log log;
    struct bucket_table buckets;
    struct pending_table pending;
    struct reaper reaper;
    struct feed feed;
    _Atomic uint64_t blob_counter;
    uint64_t durable_at_open;
    uint64_t damage_at_open;
    unsigned seen_lost_windows; /* the committer's */

    pthread_t committer, cataloguer, housekeeper;
    pthread_mutex_t idle_lock;
    pthread_cond_t idle; /* the housekeeper's pause, ended by stopping */
    bool has_committer, has_cataloguer, has_housekeeper;
    _Atomic bool stopping;
};

#endif
