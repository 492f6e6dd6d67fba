/* One write in flight per key.

   What a write replaces is read before its place is reserved, so two writes to one key must not be
   between those two points together. Each enters here under its hash first and leaves when it is
   published; a second one waits. The committer never waits here, so waiting ends.

   Keys are told apart by their 128-bit hash: were two ever to share it, one would wait needlessly. */
#include <string.h>

#include "store/store_priv.h"

void pending_init(struct pending_table *table)
{
    for (unsigned i = 0; i < PENDING_SHARDS; i++) {
        pthread_mutex_init(&table->shards[i].lock, NULL);
        pthread_cond_init(&table->shards[i].changed, NULL);
        memset(table->shards[i].chains, 0, sizeof(table->shards[i].chains));
    }
}

void pending_done(struct pending_table *table)
{
    for (unsigned i = 0; i < PENDING_SHARDS; i++) {
        pthread_mutex_destroy(&table->shards[i].lock);
        pthread_cond_destroy(&table->shards[i].changed);
    }
}

static struct pending_shard *shard_of(struct pending_table *table, struct hash128 hash)
{
    return &table->shards[hash.low % PENDING_SHARDS];
}

static struct pending_node **chain_of(struct pending_shard *shard, struct hash128 hash)
{
    return &shard->chains[hash.low / PENDING_SHARDS % PENDING_CHAINS];
}

static bool is_pending(const struct pending_node *node, struct hash128 hash)
{
    for (; node; node = node->next)
        if (node->hash.low == hash.low && node->hash.high == hash.high)
            return true;
    return false;
}

void pending_enter(struct shoal *store, struct pending_node *node, struct hash128 hash)
{
    struct pending_shard *shard = shard_of(&store->pending, hash);
    struct pending_node **chain = chain_of(shard, hash);

    pthread_mutex_lock(&shard->lock);
    while (is_pending(*chain, hash)) {
        if (store->config.threads) {
            pthread_cond_wait(&shard->changed, &shard->lock);
        } else {
            pthread_mutex_unlock(&shard->lock);
            (void)store_commit_step(store); /* its failure is the other write's affair */
            pthread_mutex_lock(&shard->lock);
        }
    }
    node->hash = hash;
    node->next = *chain;
    *chain = node;
    pthread_mutex_unlock(&shard->lock);
}

void pending_leave(struct shoal *store, struct pending_node *node)
{
    struct pending_shard *shard = shard_of(&store->pending, node->hash);
    struct pending_node **link = chain_of(shard, node->hash);

    pthread_mutex_lock(&shard->lock);
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    pthread_cond_broadcast(&shard->changed);
    pthread_mutex_unlock(&shard->lock);
}
