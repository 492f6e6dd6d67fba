/* The figures of the whole server in Prometheus' text format.

   Counters of requests, bytes and connections are written by their workers alone and summed here;
   what the store says about itself is asked at each scrape, which may take a moment, so this runs
   on a pool thread. */
#include "server/server_priv.h"

static const char *const method_names[HTTP_UNKNOWN + 1] = {
    "GET", "HEAD", "PUT", "DELETE", "POST", "OTHER", "UNKNOWN"};

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_requests(const struct server *server, struct text *text)
{
    text_addf(text, "# HELP shoal_http_requests_total Answered requests.\n"
                    "# TYPE shoal_http_requests_total counter\n");
    for (unsigned method = 0; method <= HTTP_UNKNOWN; method++) {
        for (unsigned hundreds = 2; hundreds < 6; hundreds++) {
            uint64_t sum = 0;

            for (unsigned i = 0; i < server->worker_count; i++)
                sum += load(&server->workers[i].host.counters.requests[method][hundreds]);
            text_addf(text, "shoal_http_requests_total{method=\"%s\",status=\"%uxx\"} %llu\n",
                method_names[method], hundreds, (unsigned long long)sum);
        }
    }
}

static void add_figure(
    struct text *text, const char *name, const char *kind, const char *help, uint64_t value)
{
    text_addf(text, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, kind, name,
        (unsigned long long)value);
}

static void add_connections(const struct server *server, struct text *text)
{
    struct http_counters sum = {0};

    for (unsigned i = 0; i < server->worker_count; i++) {
        const struct http_counters *counters = &server->workers[i].host.counters;

        sum.received_bytes += load(&counters->received_bytes);
        sum.sent_bytes += load(&counters->sent_bytes);
        sum.accepted += load(&counters->accepted);
        sum.refused += load(&counters->refused);
        sum.open += load(&counters->open);
    }
    add_figure(text, "shoal_http_received_bytes_total", "counter", "Bytes received from clients.",
        sum.received_bytes);
    add_figure(
        text, "shoal_http_sent_bytes_total", "counter", "Bytes sent to clients.", sum.sent_bytes);
    add_figure(
        text, "shoal_http_connections_total", "counter", "Accepted connections.", sum.accepted);
    add_figure(text, "shoal_http_connections_refused_total", "counter",
        "Connections turned away at the limit.", sum.refused);
    add_figure(text, "shoal_http_connections", "gauge", "Open connections.", sum.open);
}

static void add_store(struct server *server, struct text *text)
{
    struct shoal_info info;
    int rc = shoal_info(server->store, &info);

    add_figure(text, "shoal_store_up", "gauge", "1 if the store answers.", rc == 0);
    if (rc != 0)
        return;
    add_figure(text, "shoal_objects", "gauge", "Objects stored.", info.objects);
    add_figure(text, "shoal_data_bytes", "gauge", "Bytes of the objects.", info.data_bytes);
    add_figure(text, "shoal_live_bytes", "gauge", "Bytes of their records.", info.live_bytes);
    add_figure(
        text, "shoal_segment_bytes", "gauge", "Bytes of the segment files.", info.segment_bytes);
    add_figure(
        text, "shoal_disk_bytes", "gauge", "Bytes taken by the data directory.", info.disk_bytes);
    add_figure(text, "shoal_index_ram_bytes", "gauge", "RAM of the index.", info.index_ram_bytes);
    add_figure(text, "shoal_sequence", "counter", "Highest durable sequence.", info.sequence);
    add_figure(text, "shoal_catalogue_sequence", "counter", "Highest sequence in the catalogue.",
        info.catalogue_sequence);
    add_figure(text, "shoal_segments", "gauge", "Segments.", info.segments);
    add_figure(text, "shoal_buckets", "gauge", "Buckets.", info.buckets);
    add_figure(text, "shoal_reaping_bytes", "gauge", "Bytes of dead objects not yet reaped.",
        info.reaping_bytes);
}

void metrics_write(struct server *server, struct text *text)
{
    add_requests(server, text);
    add_connections(server, text);
    add_store(server, text);
    add_figure(text, "shoal_request_memory_bytes", "gauge",
        "Memory reserved for bodies and lists under way.",
        (uint64_t)(REQUEST_BYTES - atomic_load(&server->memory_left)));
}
