/* From a request to its handler, for the listeners that serve objects.

   /                 what this is
   /bucket           to /bucket/
   /bucket/          the list of its keys
   /bucket/key…      the object

   A bucket that is not public answers 401 without the token whether it exists or not, so nobody
   learns its name. Every handler finds the decoded name at the start of the exchange's state. */
#include "server/server_priv.h"

#include <string.h>

#include "http/target.h"

static void serve_root(struct exchange *x)
{
    if (x->head.method != HTTP_GET && x->head.method != HTTP_HEAD)
        answer_not_allowed(x, "GET, HEAD");
    else
        exchange_reply(x, 200,
            "This is shoal, a store for small files. Objects are at /BUCKET/KEY, the list of a "
            "bucket at /BUCKET/.");
}

/* 0, or the status to answer. */
static int decode_name(
    const uint8_t *path, const struct http_target *target, struct object_name *ret_name)
{
    int length = http_percent_decode(path + target->bucket_start, target->bucket_length,
        (uint8_t *)ret_name->bucket, SHOAL_BUCKET_MAX);

    if (length < 0 && length != -414)
        return -length;
    if (length < 0)
        length = 0; /* too long for any bucket: none has the empty name */
    ret_name->bucket[length] = 0;
    length = http_percent_decode(
        path + target->key_start, target->key_length, ret_name->key, SHOAL_KEY_MAX);
    if (length < 0)
        return 400;
    ret_name->key_length = (uint16_t)length;
    return 0;
}

/* True if the request may go on; otherwise it is answered. */
static bool check_bucket(struct exchange *x, struct object_name *name)
{
    bool reads = x->head.method == HTTP_GET || x->head.method == HTTP_HEAD;
    struct shoal_bucket bucket;
    int rc = shoal_bucket_stat(server_of(x)->store, name->bucket, &bucket);
    int status;

    name->is_public = rc == 0 && bucket.is_public;
    if (!reads || !name->is_public) {
        status = token_check(x);
        if (status != 0) {
            token_refuse(x, status);
            return false;
        }
    }
    if (rc != 0) {
        answer_code(x, rc == SHOAL_E_BAD_NAME ? SHOAL_E_NO_BUCKET : rc, name->bucket, "", 0);
        return false;
    }
    return true;
}

static void redirect(struct exchange *x, const struct object_name *name)
{
    char location[SHOAL_BUCKET_MAX + 3] = "/";
    size_t length = strlen(name->bucket);

    /* The name of a bucket that exists needs no escapes. */
    memcpy(location + 1, name->bucket, length);
    memcpy(location + 1 + length, "/", 2);
    exchange_begin(x, 301);
    exchange_field(x, "Location", location);
    exchange_body(x, 0);
    exchange_finish(x);
}

static void serve_bucket(struct exchange *x, bool has_slash)
{
    if (x->head.method != HTTP_GET && x->head.method != HTTP_HEAD)
        answer_not_allowed(x, "GET, HEAD");
    else if (!has_slash)
        redirect(x, (struct object_name *)x->state);
    else
        list_bucket(x);
}

static void serve_object(struct exchange *x)
{
    switch (x->head.method) {
    case HTTP_GET:
    case HTTP_HEAD:
        get_object(x);
        break;
    case HTTP_PUT:
        put_object(x);
        break;
    case HTTP_DELETE:
        delete_object(x);
        break;
    default:
        answer_not_allowed(x, "GET, HEAD, PUT, DELETE");
        break;
    }
}

static void serve(struct exchange *x)
{
    const uint8_t *path = x->head_bytes + x->head.path.start;
    struct object_name *name = (struct object_name *)x->state;
    struct http_target target;
    int status;

    if (x->head.method == HTTP_UNKNOWN) {
        exchange_reply(x, 501, "this method is not known here");
        return;
    }
    if (x->head.method == HTTP_OTHER_KNOWN) {
        answer_not_allowed(x, "GET, HEAD, PUT, DELETE");
        return;
    }
    if (x->head.path.length == 1) {
        serve_root(x);
        return;
    }
    http_target_split(path, x->head.path.length, &target);
    status = decode_name(path, &target, name);
    if (status != 0) {
        exchange_reply(x, status,
            target.key_length > SHOAL_KEY_MAX ? shoal_strerror(SHOAL_E_BAD_KEY)
                                              : "the address has a bad percent escape");
        return;
    }
    if (!check_bucket(x, name))
        return;
    if (name->key_length == 0)
        serve_bucket(x, target.has_slash);
    else
        serve_object(x);
}

const struct http_service object_service = {.request = serve};
