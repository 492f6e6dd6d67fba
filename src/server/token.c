/* The access token: made on the first start, kept in DIR/access.token for its owner alone.

   The file is written under its final name with O_EXCL, synced with its directory, and must never
   be readable by others: a start with such a file is refused rather than mended, because the token
   may be known already. A file that is cut short (a crash while it was made) is refused with the
   advice to remove it. Tokens are compared in constant time. */
#include "server/server_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "os/random.h"

#define TOKEN_FILE "access.token"

static bool is_token(const char *text, size_t length)
{
    if (length == TOKEN_DIGITS + 1 && text[TOKEN_DIGITS] == '\n')
        length--;
    if (length != TOKEN_DIGITS)
        return false;
    for (size_t i = 0; i < TOKEN_DIGITS; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    }
    return true;
}

static int read_token(
    int fd, const char *path, char ret_token[TOKEN_DIGITS + 1], struct shoal_error *error)
{
    char text[TOKEN_DIGITS + 8];
    struct stat st;
    ssize_t length;

    if (fstat(fd, &st) != 0)
        return error_set(error, -errno, path, 0, "can't be read: %s", strerrordesc_np(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(error, -EINVAL, path, 0, "is no file: remove it so that one is made");
    if ((st.st_mode & 077) != 0)
        return error_set(error, -EACCES, path, 0,
            "others may read it: chmod 600 it, or remove it so that a new token is made");
    length = read(fd, text, sizeof(text));
    if (length < 0)
        return error_set(error, -errno, path, 0, "can't be read: %s", strerrordesc_np(errno));
    if (!is_token(text, (size_t)length))
        return error_set(error, -EINVAL, path, 0,
            "holds no token of %d hex digits: remove it so that a new one is made", TOKEN_DIGITS);
    memcpy(ret_token, text, TOKEN_DIGITS);
    ret_token[TOKEN_DIGITS] = 0;
    return 0;
}

static int make_token(char ret_line[TOKEN_DIGITS + 1])
{
    static const char digits[] = "0123456789abcdef";
    struct random_source *random = random_system();
    uint8_t bytes[TOKEN_DIGITS / 2];
    int rc = random->fill(random, bytes, sizeof(bytes));

    for (size_t i = 0; i < sizeof(bytes); i++) {
        ret_line[2 * i] = digits[bytes[i] >> 4];
        ret_line[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret_line[TOKEN_DIGITS] = '\n';
    return rc;
}

static int write_token(int fd, int dir_fd)
{
    char line[TOKEN_DIGITS + 1];
    int rc = make_token(line);
    ssize_t n;

    if (rc != 0)
        return rc;
    n = write(fd, line, sizeof(line));
    if (n < 0)
        return -errno;
    if ((size_t)n != sizeof(line))
        return -ENOSPC;
    if (fsync(fd) != 0 || fsync(dir_fd) != 0)
        return -errno;
    return lseek(fd, 0, SEEK_SET) == 0 ? 0 : -errno;
}

int token_load(const char *data_dir, char ret_token[TOKEN_DIGITS + 1], struct shoal_error *error)
{
    char path[4096];
    int dir_fd, fd = -1, rc = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", data_dir, TOKEN_FILE); /* for messages */
    dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return error_set(error, -errno, data_dir, 0, "can't be opened: %s", strerrordesc_np(errno));
    fd = openat(dir_fd, TOKEN_FILE, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        rc = write_token(fd, dir_fd);
        if (rc != 0) {
            (void)unlinkat(dir_fd, TOKEN_FILE, 0); /* the next start makes it again */
            error_set(error, rc, path, 0, "can't be written: %s", shoal_strerror(rc));
        }
    } else if (errno == EEXIST) {
        /* Not waiting for whoever might write to a pipe of that name. */
        fd = openat(dir_fd, TOKEN_FILE, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    }
    if (rc == 0 && fd < 0)
        rc = error_set(error, -errno, path, 0, "can't be opened: %s", strerrordesc_np(errno));
    if (rc == 0)
        rc = read_token(fd, path, ret_token, error);
    if (fd >= 0)
        close(fd);
    close(dir_fd);
    return rc;
}

/* --- requests --- */

static bool same_token(const uint8_t *given, size_t length, const char *token)
{
    uint8_t difference = 0;

    if (length != TOKEN_DIGITS)
        return false;
    for (size_t i = 0; i < TOKEN_DIGITS; i++)
        difference |= given[i] ^ (uint8_t)token[i];
    return difference == 0;
}

int token_check(const struct exchange *x)
{
    size_t length;
    const uint8_t *value = exchange_request_field(x, HTTP_AUTHORIZATION, &length);

    if (x->head.counts[HTTP_AUTHORIZATION] == 0)
        return 401;
    if (value == NULL || length < 7 || !http_equals(value, 7, "bearer "))
        return 403;
    value += 7;
    length -= 7;
    while (length > 0 && *value == ' ') {
        value++;
        length--;
    }
    return same_token(value, length, server_of(x)->token) ? 0 : 403;
}

void token_refuse(struct exchange *x, int status)
{
    static const char absent[] = "this needs the store's access token: Authorization: Bearer …\n";
    static const char wrong[] = "the access token is not the store's\n";
    const char *text = status == 401 ? absent : wrong;

    exchange_begin(x, status);
    if (status == 401)
        exchange_field(x, "WWW-Authenticate", "Bearer realm=\"shoal\"");
    exchange_field(x, "Content-Type", "text/plain; charset=utf-8");
    exchange_body(x, strlen(text));
    (void)exchange_send(x, text, strlen(text)); /* small enough to be copied */
    exchange_finish(x);
}
