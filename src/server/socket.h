/* Parts of the service on DIR/admin.sock. */
#ifndef SERVER_SOCKET_H
#define SERVER_SOCKET_H

struct exchange;

/* Answers {"error": …}. */
void socket_refuse(struct exchange *x, int status, const char *sentence);
/* POST /check. */
void check_run(struct exchange *x);

#endif
