/* How RocksDB is set up for the catalogue.

   Keys come in random order, are written once or twice and read by scans, and all of it can be
   rebuilt. Hence: no write-ahead log; universal compaction, which rewrites a key few times; merging
   starts late and runs on low-priority threads, so that a bulk load has the cores; blocks of
   16 KiB; no bloom filters. Memory is bounded by one block cache that also holds index blocks,
   by the write buffers and by the number of open files. RocksDB checks a CRC of every block it
   reads. */
#include <errno.h>

#include "store/catalogue_rocksdb_priv.h"

#define BLOCK_BYTES          (16u << 10)
#define OPEN_FILES_MAX       256
#define MANIFEST_BYTES_MAX   (4u << 20)
#define TABLE_FORMAT_VERSION 5
#define CHECKSUM_XXH3        4
#define LOG_LEVEL_FATAL      4

static int set_table_options(struct catalogue_rocksdb *c)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    if (!table)
        return -ENOMEM;
    rocksdb_block_based_options_set_block_cache(table, c->cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, TABLE_FORMAT_VERSION);
    rocksdb_block_based_options_set_checksum(table, CHECKSUM_XXH3);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_options_set_block_based_table_factory(c->options, table);
    rocksdb_block_based_options_destroy(table);
    return 0;
}

static void set_compaction(rocksdb_options_t *options)
{
    rocksdb_universal_compaction_options_t *universal =
        rocksdb_universal_compaction_options_create();
    rocksdb_universal_compaction_options_set_size_ratio(universal, 20);
    rocksdb_universal_compaction_options_set_min_merge_width(universal, 4);
    rocksdb_universal_compaction_options_set_max_merge_width(universal, CATALOGUE_RUNS_MAX);
    rocksdb_options_set_universal_compaction_options(options, universal);
    rocksdb_universal_compaction_options_destroy(universal);
    rocksdb_options_set_compaction_style(options, rocksdb_universal_compaction);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, CATALOGUE_RUNS_MERGE);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, CATALOGUE_RUNS_MAX);
    rocksdb_options_set_level0_stop_writes_trigger(options, 2 * CATALOGUE_RUNS_MAX);
    rocksdb_options_set_max_background_jobs(options, 3);
    rocksdb_env_t *env = rocksdb_create_default_env();
    rocksdb_env_lower_thread_pool_cpu_priority(env);
    rocksdb_env_lower_thread_pool_io_priority(env);
    rocksdb_env_destroy(env);
}

static void set_limits(rocksdb_options_t *options)
{
    rocksdb_options_set_write_buffer_size(options, CATALOGUE_WRITE_BUFFER_BYTES);
    rocksdb_options_set_max_write_buffer_number(options, CATALOGUE_WRITE_BUFFERS);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    rocksdb_options_set_max_manifest_file_size(options, MANIFEST_BYTES_MAX);
    rocksdb_options_set_manifest_preallocation_size(options, BLOCK_BYTES);
    rocksdb_options_set_keep_log_file_num(options, 1);
    rocksdb_options_set_info_log_level(options, LOG_LEVEL_FATAL);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    rocksdb_options_set_skip_stats_update_on_db_open(options, 1);
}

int catalogue_options_init(struct catalogue_rocksdb *c)
{
    c->cache = rocksdb_cache_create_lru(CATALOGUE_CACHE_BYTES);
    c->options = rocksdb_options_create();
    c->read_options = rocksdb_readoptions_create();
    c->write_options = rocksdb_writeoptions_create();
    if (!c->cache || !c->options || !c->read_options || !c->write_options)
        return -ENOMEM;
    rocksdb_options_set_create_if_missing(c->options, 1);
    rocksdb_options_set_paranoid_checks(c->options, 1);
    rocksdb_options_set_compression(c->options, rocksdb_lz4_compression);
    set_limits(c->options);
    set_compaction(c->options);
    rocksdb_readoptions_set_verify_checksums(c->read_options, 1);
    rocksdb_writeoptions_disable_WAL(c->write_options, 1);
    rocksdb_writeoptions_set_memtable_insert_hint_per_batch(c->write_options, 1);
    return set_table_options(c);
}

void catalogue_options_done(struct catalogue_rocksdb *c)
{
    if (c->write_options)
        rocksdb_writeoptions_destroy(c->write_options);
    if (c->read_options)
        rocksdb_readoptions_destroy(c->read_options);
    if (c->options)
        rocksdb_options_destroy(c->options);
    if (c->cache)
        rocksdb_cache_destroy(c->cache);
}
