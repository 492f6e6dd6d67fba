/* Addresses as people write them, and listening sockets. */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct listen_address {
    struct sockaddr_storage address;
    socklen_t length;
};

/* "HOST:PORT", "[v6]:PORT", ":PORT" and "*:PORT" (every address), "unix:PATH". -EINVAL: not of
   this form; -EADDRNOTAVAIL: the host has no address; -ENAMETOOLONG: a path over 107 bytes. May
   ask the resolver. */
int listen_address_parse(const char *text, struct listen_address *ret_address);
bool listen_address_is_unix(const struct listen_address *address);

/* -EADDRINUSE if somebody listens on that TCP port. To be asked before a shared listen_open, which
   would join another server of the same user silently. */
int listen_probe(const struct listen_address *address);
/* Binds and listens. share: several sockets of this process take turns on one TCP port. A unix
   socket that nobody serves any more is replaced; its file gets this mode. */
int listen_open(const struct listen_address *address, bool share, unsigned mode, int *ret_fd);
/* The address a socket really has: a port of 0 becomes the kernel's choice. */
int listen_address_of(int fd, struct listen_address *ret_address);
/* "http://127.0.0.1:7070/" or "unix:PATH". */
void listen_address_text(const struct listen_address *address, char *text, size_t size);

#endif
