/* Talking to the server that holds the store.

   It listens on a unix socket in the data directory, which only its own user may open, and answers
   HTTP/1.1 with JSON: one value, or one value a line for long answers, which are handled line by
   line as they come. libcurl speaks the protocol; jansson reads the values, because it keeps 64-bit
   integers exact and refuses what is not UTF-8 (cJSON turns numbers into doubles).

   The socket is reached through a descriptor of the directory, since a socket's path may have at
   most 107 bytes and a data directory's is often longer.

   What can fail: nobody listens (then the caller says what the lock said), the answer is an error
   of the server's, or no JSON. Answers and lines are bounded. */
#include "cli/admin.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/options.h"
#include "cli/output.h"
#include "shoal/error.h"

#define ANSWER_BYTES_MAX (16u << 20)
#define LINE_BYTES_MAX   (64u << 10)

struct answer {
    const struct admin_call *call;
    CURL *curl;
    char *bytes; /* the answer, or the line that is still incomplete */
    size_t length, capacity;
    int code; /* of a line's handling */
};

static int reserve(struct answer *answer, size_t more)
{
    size_t limit = answer->call->line ? LINE_BYTES_MAX : ANSWER_BYTES_MAX;
    size_t needed = answer->length + more;
    if (needed <= answer->capacity)
        return 0;
    if (needed > limit)
        return -EMSGSIZE;
    size_t capacity = answer->capacity ? answer->capacity : 4096;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = mem_resize(answer->bytes, capacity);
    if (!bytes)
        return -ENOMEM;
    answer->bytes = bytes;
    answer->capacity = capacity;
    return 0;
}

static int append(struct answer *answer, const char *data, size_t length)
{
    int rc = reserve(answer, length);
    if (rc == 0) {
        memcpy(answer->bytes + answer->length, data, length);
        answer->length += length;
    }
    return rc;
}

static int handle_line(struct answer *answer)
{
    json_error_t error;
    if (answer->length == 0)
        return 0;
    json_t *value = json_loadb(answer->bytes, answer->length, JSON_ALLOW_NUL, &error);
    answer->length = 0;
    if (!value)
        return -EBADMSG;
    int rc = answer->call->line(answer->call->arg, value);
    json_decref(value);
    return rc;
}

static int take(struct answer *answer, const char *data, size_t length)
{
    long status = 0;
    curl_easy_getinfo(answer->curl, CURLINFO_RESPONSE_CODE, &status);
    /* An error is one value, whatever was asked for. */
    if (!answer->call->line || status >= 300)
        return append(answer, data, length);
    while (length) {
        const char *end = memchr(data, '\n', length);
        size_t part = end ? (size_t)(end - data) : length;
        int rc = append(answer, data, part);
        if (rc == 0 && end)
            rc = handle_line(answer);
        if (rc < 0)
            return rc;
        data += part + (end != NULL);
        length -= part + (end != NULL);
    }
    return 0;
}

static size_t receive(char *data, size_t size, size_t count, void *arg)
{
    struct answer *answer = arg;
    answer->code = take(answer, data, size * count);
    return answer->code < 0 ? 0 : size * count;
}

/* The server's own words for a refusal. */
static int complain_of_status(
    const struct command_help *help, const struct answer *answer, long status)
{
    json_error_t error;
    json_t *value = json_loadb(answer->bytes, answer->length, 0, &error);
    const char *text = json_string_value(json_object_get(value, "error"));
    if (text)
        complain(help->name, "the server says: %s", text);
    else
        complain(help->name, "the server answered %s with status %ld", answer->call->path, status);
    json_decref(value);
    return -EREMOTEIO;
}

static int finish(
    const struct command_help *help, struct answer *answer, CURLcode sent, json_t **ret_value)
{
    json_error_t error;
    long status = 0;
    curl_easy_getinfo(answer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (sent == CURLE_COULDNT_CONNECT)
        return -ECONNREFUSED;
    if (sent == CURLE_OK && status >= 300)
        return complain_of_status(help, answer, status);
    int rc = answer->code;
    if (sent == CURLE_OK && answer->call->line)
        rc = handle_line(answer);
    if (rc < 0 || sent != CURLE_OK) {
        complain(help->name, "%s/admin.sock: %s", answer->call->dir,
            rc == -EBADMSG ? "the answer is not JSON"
            : rc < 0       ? shoal_strerror(rc)
                           : curl_easy_strerror(sent));
        return -EREMOTEIO;
    }
    if (!ret_value)
        return 0;
    *ret_value = json_loadb(answer->bytes, answer->length, JSON_ALLOW_NUL, &error);
    if (*ret_value)
        return 0;
    complain(help->name, "%s/admin.sock: the answer is not JSON", answer->call->dir);
    return -EREMOTEIO;
}

static CURLcode send_request(struct answer *answer, int dir_fd)
{
    const struct admin_call *call = answer->call;
    char socket_path[64], url[256];
    CURL *curl = answer->curl;
    snprintf(socket_path, sizeof socket_path, "/proc/self/fd/%d/admin.sock", dir_fd);
    snprintf(url, sizeof url, "http://localhost%s", call->path);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    if (strcmp(call->method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
    }
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    return curl_easy_perform(curl);
}

int admin_run(const struct command_help *help, const struct admin_call *call, json_t **ret_value)
{
    struct answer answer = {.call = call};
    int dir_fd = open(call->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return -ECONNREFUSED;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    answer.curl = curl_easy_init();
    int rc = -ENOMEM;
    if (answer.curl) {
        CURLcode sent = send_request(&answer, dir_fd);
        rc = finish(help, &answer, sent, ret_value);
        curl_easy_cleanup(answer.curl);
    } else {
        complain(help->name, "out of memory");
    }
    curl_global_cleanup();
    mem_free(answer.bytes);
    (void)close(dir_fd); /* opened for its path only */
    return rc;
}
