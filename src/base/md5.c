/* MD5 through OpenSSL.

   OpenSSL 3 looks an algorithm up by name, under locks, unless it is handed one fetched before:
   that lookup costs more than the digest of a small object. So a context fetches it once, and is
   made ready for its next message without allocating. md5_of keeps one context a thread, freed
   when the thread ends.

   Making a context can fail for want of memory, or where the system's policy forbids MD5; both are
   reported as -ENOMEM. With a context made, OpenSSL's MD5 has no way to fail: it allocates nothing
   and calls no device. */
#include "base/md5.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>

#include "base/mem.h"

struct md5 {
    EVP_MD *algorithm;
    EVP_MD_CTX *context;
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key_of_thread;
static int key_failure;

struct md5 *md5_new(void)
{
    struct md5 *md5 = mem_zero(1, sizeof(*md5));

    if (md5 == NULL)
        return NULL;
    md5->algorithm = EVP_MD_fetch(NULL, "MD5", NULL);
    md5->context = EVP_MD_CTX_new();
    if (md5->algorithm == NULL || md5->context == NULL ||
        EVP_DigestInit_ex2(md5->context, md5->algorithm, NULL) != 1) {
        md5_free(md5);
        return NULL;
    }
    return md5;
}

void md5_free(struct md5 *md5)
{
    if (md5 == NULL)
        return;
    EVP_MD_CTX_free(md5->context);
    EVP_MD_free(md5->algorithm);
    mem_free(md5);
}

void md5_update(struct md5 *md5, const void *data, size_t length)
{
    /* Cannot fail: see above. */
    (void)EVP_DigestUpdate(md5->context, data, length);
}

void md5_finish(struct md5 *md5, uint8_t ret_digest[16])
{
    /* Cannot fail: see above. */
    (void)EVP_DigestFinal_ex(md5->context, ret_digest, NULL);
    (void)EVP_DigestInit_ex2(md5->context, NULL, NULL);
}

static void free_of_thread(void *md5)
{
    md5_free(md5);
}

static void make_key(void)
{
    key_failure = pthread_key_create(&key_of_thread, free_of_thread);
}

/* The calling thread's context, made at its first call. NULL: out of memory. */
static struct md5 *md5_of_thread(void)
{
    struct md5 *md5;

    if (pthread_once(&key_once, make_key) != 0 || key_failure != 0)
        return NULL;
    md5 = pthread_getspecific(key_of_thread);
    if (md5 != NULL)
        return md5;
    md5 = md5_new();
    if (md5 != NULL && pthread_setspecific(key_of_thread, md5) != 0) {
        md5_free(md5);
        return NULL;
    }
    return md5;
}

int md5_of(const void *data, size_t length, uint8_t ret_digest[16])
{
    struct md5 *md5 = md5_of_thread();

    if (md5 == NULL)
        return -ENOMEM;
    md5_update(md5, data, length);
    md5_finish(md5, ret_digest);
    return 0;
}

void md5_hex(const uint8_t digest[16], char ret_hex[33])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < 16; i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[32] = 0;
}
