/* Turns addresses into listening sockets.

   TCP sockets that share a port carry SO_REUSEPORT, one per worker, so that the kernel spreads
   connections without a common queue. The flag would also let a second server of the same user
   slip in silently: so the port is first bound without it, which fails while anybody listens
   there. Nagle's algorithm is off (accepted sockets inherit that): every response leaves in one
   send.

   The mode of a unix socket is set through the umask while it is bound, since a chmod afterwards
   would leave a moment for others; callers bind before they start threads. */
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096

static int parse_unix(const char *path, struct listen_address *ret_address)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t length = strlen(path);

    if (length == 0)
        return -EINVAL;
    if (length >= sizeof(un.sun_path))
        return -ENAMETOOLONG;
    memcpy(un.sun_path, path, length + 1);
    memcpy(&ret_address->address, &un, sizeof(un));
    ret_address->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return 0;
}

static int parse_port(const char *text)
{
    int port = 0;

    if (*text == 0)
        return -EINVAL;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        port = port * 10 + (*text - '0');
        if (port > 65535)
            return -EINVAL;
    }
    return port;
}

static int resolve(const char *host, const char *port, struct listen_address *ret_address)
{
    struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found;
    bool any = *host == 0 || strcmp(host, "*") == 0;

    if (getaddrinfo(any ? NULL : host, port, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    memcpy(&ret_address->address, found->ai_addr, found->ai_addrlen);
    ret_address->length = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int listen_address_parse(const char *text, struct listen_address *ret_address)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t length;

    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, ret_address);
    if (colon == NULL || parse_port(colon + 1) < 0)
        return -EINVAL;
    length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (memchr(text, ':', length) != NULL) {
        return -EINVAL; /* a bare IPv6 address leaves open where the port begins */
    }
    if (length >= sizeof(host))
        return -EINVAL;
    memcpy(host, text, length);
    host[length] = 0;
    return resolve(host, colon + 1, ret_address);
}

bool listen_address_is_unix(const struct listen_address *address)
{
    return address->address.ss_family == AF_UNIX;
}

/* --- opening --- */

static const struct sockaddr *as_sockaddr(const struct listen_address *address)
{
    return (const struct sockaddr *)&address->address;
}

static int set_option(int fd, int level, int name)
{
    int on = 1;

    return setsockopt(fd, level, name, &on, sizeof(on)) == 0 ? 0 : -errno;
}

static int open_tcp(const struct listen_address *address, bool share, int *ret_fd)
{
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc;

    if (fd < 0)
        return -errno;
    rc = set_option(fd, SOL_SOCKET, SO_REUSEADDR);
    if (rc == 0 && share)
        rc = set_option(fd, SOL_SOCKET, SO_REUSEPORT);
    if (rc == 0)
        rc = set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    if (rc == 0 && bind(fd, as_sockaddr(address), address->length) != 0)
        rc = -errno;
    if (rc == 0 && listen(fd, BACKLOG) != 0)
        rc = -errno;
    if (rc != 0)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

/* True if somebody answers there. */
static bool is_served(const struct listen_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool served;

    if (fd < 0)
        return true; /* better refuse than take over */
    served = connect(fd, as_sockaddr(address), address->length) == 0 || errno == EAGAIN;
    close(fd);
    return served;
}

static int remove_stale(const struct listen_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->address;
    struct stat st;

    if (lstat(un->sun_path, &st) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode) || is_served(address))
        return -EADDRINUSE;
    return unlink(un->sun_path) == 0 ? 0 : -errno;
}

static int open_unix(const struct listen_address *address, unsigned mode, int *ret_fd)
{
    int rc = remove_stale(address);
    mode_t old_mask;
    int fd;

    if (rc != 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    old_mask = umask((mode_t)(0777 & ~mode));
    rc = bind(fd, as_sockaddr(address), address->length) == 0 ? 0 : -errno;
    umask(old_mask);
    if (rc == 0 && listen(fd, BACKLOG) != 0)
        rc = -errno;
    if (rc != 0)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

static uint16_t port_of(const struct listen_address *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address->address;

    /* The port lies at the same place in both families. */
    return ntohs(in->sin_port);
}

int listen_open(const struct listen_address *address, bool share, unsigned mode, int *ret_fd)
{
    if (listen_address_is_unix(address))
        return open_unix(address, mode, ret_fd);
    return open_tcp(address, share, ret_fd);
}

int listen_probe(const struct listen_address *address)
{
    int fd = -1, rc;

    if (listen_address_is_unix(address) || port_of(address) == 0)
        return 0;
    rc = open_tcp(address, false, &fd);
    if (rc == 0)
        close(fd);
    return rc;
}

int listen_address_of(int fd, struct listen_address *ret_address)
{
    socklen_t length = sizeof(ret_address->address);

    if (getsockname(fd, (struct sockaddr *)&ret_address->address, &length) != 0)
        return -errno;
    ret_address->length = length;
    return 0;
}

void listen_address_text(const struct listen_address *address, char *text, size_t size)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->address;
    char host[INET6_ADDRSTRLEN + 32];
    bool is_v6 = address->address.ss_family == AF_INET6;

    if (listen_address_is_unix(address)) {
        (void)snprintf(text, size, "unix:%s", un->sun_path); /* both come from one length */
        return;
    }
    if (getnameinfo(as_sockaddr(address), address->length, host, sizeof(host), NULL, 0,
            NI_NUMERICHOST) != 0)
        memcpy(host, "?", 2); /* cannot happen for an address we bound */
    (void)snprintf(text, size, is_v6 ? "http://[%s]:%u/" : "http://%s:%u/", host,
        (unsigned)port_of(address)); /* a cut text is only shown */
}
