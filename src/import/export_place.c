/* Where in the target an export writes.

   A key is a path only if export_refusal finds nothing wrong with it. Directories are entered one
   name at a time with openat2, which resolves beneath the one before and follows no link, so that
   neither a key nor a link that lies in the target leads out of it. Listing order keeps the keys of
   a directory together: the open directories of the last key are kept, and most keys need none
   opened.

   `a` beside `a/b` can't both be files: keys pass in byte order, in which `a` precedes `a/b` though
   not always directly (`a!` lies between), so the earlier keys that are prefixes of the present one
   are kept as lengths of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "import/export_priv.h"

#define NAME_BYTES_MAX 255

const char *export_refusal(const void *key, size_t length)
{
    const char *at = key, *end = at + length;
    if (length == 0)
        return "names the directory itself";
    if (*at == '/')
        return "begins with a slash";
    if (end[-1] == '/')
        return "ends in a slash, which no file name can";
    while (at < end) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t name_length = (size_t)((slash ? slash : end) - at);
        if (name_length == 0)
            return "has an empty segment, which no file name can be";
        if (name_length > NAME_BYTES_MAX)
            return "has a segment over 255 bytes, longer than a file name can be";
        if (at[0] == '.' && (name_length == 1 || (name_length == 2 && at[1] == '.')))
            return "has a segment '.' or '..'";
        at += name_length + 1;
    }
    return NULL;
}

bool export_ancestors_pass(struct export_ancestors *ancestors, const void *key, size_t length)
{
    const uint8_t *bytes = key;
    size_t common = 0;
    bool blocked = false;
    while (common < length && common < ancestors->last_length &&
           bytes[common] == ancestors->last[common])
        common++;
    while (ancestors->count && ancestors->lengths[ancestors->count - 1] > common)
        ancestors->count--;
    for (unsigned i = 0; i < ancestors->count && !blocked; i++)
        blocked = ancestors->lengths[i] < length && bytes[ancestors->lengths[i]] == '/';
    memcpy(ancestors->last, bytes, length);
    ancestors->last_length = length;
    /* A refused key becomes no file and is in nobody's way. */
    if (!blocked)
        ancestors->lengths[ancestors->count++] = (uint16_t)length;
    return blocked;
}

void export_place_init(struct export_place *place, int root_fd)
{
    place->root_fd = root_fd;
    place->depth = 0;
}

static void leave_to(struct export_place *place, unsigned depth)
{
    while (place->depth > depth)
        (void)close(place->fds[--place->depth]); /* a directory: nothing to lose */
}

void export_place_done(struct export_place *place)
{
    leave_to(place, 0);
}

static int open_beneath(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof how);
    /* Where a sandbox refuses the call: for one name, O_NOFOLLOW promises the same. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

/* One level down, to the name that ends at `end` of the path. */
static int enter(struct export_place *place, const char *name, size_t name_length, size_t end)
{
    char text[NAME_BYTES_MAX + 1];
    int parent = place->depth ? place->fds[place->depth - 1] : place->root_fd;
    memcpy(text, name, name_length);
    text[name_length] = 0;
    int fd = open_beneath(parent, text);
    if (fd == -ENOENT) {
        if (mkdirat(parent, text, 0777) < 0 && errno != EEXIST)
            return -errno;
        fd = open_beneath(parent, text);
    }
    if (fd < 0)
        return fd;
    place->fds[place->depth] = fd;
    place->ends[place->depth++] = (uint16_t)end;
    return 0;
}

int export_place_go(
    struct export_place *place, const char *key, size_t length, const char **ret_name)
{
    const char *slash = memrchr(key, '/', length);
    size_t dir_length = slash ? (size_t)(slash - key) : 0;
    unsigned keep = 0;
    /* Levels whose names the key shares, each followed by a slash or the end of the path. */
    while (keep < place->depth && place->ends[keep] <= dir_length &&
           memcmp(place->path, key, place->ends[keep]) == 0 && key[place->ends[keep]] == '/')
        keep++;
    leave_to(place, keep);
    size_t at = keep ? place->ends[keep - 1] + 1u : 0;
    memcpy(place->path, key, dir_length);
    while (at < dir_length) {
        const char *next = memchr(key + at, '/', dir_length - at);
        size_t end = next ? (size_t)(next - key) : dir_length;
        int rc = enter(place, key + at, end - at, end);
        if (rc < 0)
            return rc;
        at = end + 1;
    }
    *ret_name = slash ? slash + 1 : key;
    return place->depth ? place->fds[place->depth - 1] : place->root_fd;
}
