/* What the store holds of the files that an import meets.

   The catalogue's entries have size, time and MD5, and neighbours in a directory are neighbours in
   it: a seek there takes a few microseconds, where shoal_stat reads each record's header from the
   device. The import is the only writer and meets each file once, so a scan opened before is as
   good as a fresh one; it is opened anew now and then, since an open scan keeps replaced files of
   the catalogue on the disk.

   Where the catalogue can't be used, the records are asked one by one. */
#include <string.h>

#include "import/import_priv.h"

#define LOOKUPS_A_SCAN (1u << 20)

static int find_record(
    struct known *known, const void *key, size_t key_length, struct known_object *ret_object)
{
    struct shoal_stat stat;
    int rc = shoal_stat(known->store, known->bucket, key, key_length, &stat);
    if (rc == SHOAL_E_ABSENT)
        return 0;
    if (rc < 0)
        return rc;
    ret_object->size_bytes = stat.size_bytes;
    ret_object->mtime_ns = stat.mtime_ns;
    memcpy(ret_object->md5, stat.md5, sizeof stat.md5);
    return 1;
}

static int find_entry(
    struct known *known, const void *key, size_t key_length, struct known_object *ret_object)
{
    struct shoal_entry entry;
    int rc = shoal_scan_seek(known->scan, key, key_length);
    if (rc == 0)
        rc = shoal_scan_next(known->scan, &entry);
    if (rc <= 0)
        return rc;
    if (entry.key_length != key_length || memcmp(entry.key, key, key_length) != 0)
        return 0;
    ret_object->size_bytes = entry.size_bytes;
    ret_object->mtime_ns = entry.mtime_ns;
    memcpy(ret_object->md5, entry.md5, sizeof entry.md5);
    return 1;
}

int known_find(
    struct known *known, const void *key, size_t key_length, struct known_object *ret_object)
{
    if (known->scan && known->lookups++ == LOOKUPS_A_SCAN)
        known_done(known);
    if (!known->scan) {
        known->lookups = 0;
        if (shoal_scan_open(known->store, known->bucket, "", 0, "", 0, &known->scan) < 0)
            return find_record(known, key, key_length, ret_object);
    }
    int rc = find_entry(known, key, key_length, ret_object);
    if (rc >= 0)
        return rc;
    known_done(known);
    return find_record(known, key, key_length, ret_object);
}

void known_done(struct known *known)
{
    shoal_scan_close(known->scan);
    known->scan = NULL;
}
