/* Deliberately broken builds, which the simulator must catch: `meson setup -Dbroken=NAME` defines
   BROKEN_BUILD as one of these; ordinary builds define none, and every BROKEN() folds to 0. */
#ifndef BASE_BROKEN_H
#define BASE_BROKEN_H

enum broken {
    BROKEN_NOTHING,
    BROKEN_SYNC_OMITTED, /* a group is acknowledged without a sync */
    BROKEN_PUBLISH_BEFORE_SYNC, /* the index shows a group before its sync */
    BROKEN_DIR_SYNC_OMITTED, /* a new segment's name is not made durable */
    BROKEN_TORN_TAIL_KEPT, /* a torn group at the end is read as far as it goes */
    BROKEN_APPEND_TO_OLD_TAIL, /* a reopen goes on in the old segment */
    BROKEN_FAILED_SYNC_RETRIED, /* a failed sync is called again and believed */
};

#ifndef BROKEN_BUILD
#define BROKEN_BUILD BROKEN_NOTHING
#endif

#define BROKEN(name) (BROKEN_BUILD == BROKEN_##name)

#endif
