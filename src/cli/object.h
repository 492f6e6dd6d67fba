/* How put, get and stat show an object. */
#ifndef CLI_OBJECT_H
#define CLI_OBJECT_H

#include <shoal/shoal.h>

struct location;

/* One line of JSON on standard output. */
void object_print_json(const struct location *at, const struct shoal_stat *stat);

#endif
