"""create: the time to create many files of 1 KB on the file system, against storing the same.

Three things take turns, each on an empty folder after the file system has settled: the peer
creates the files of an xx/xx/xx/xx.jpg tree; `shoal bench put` stores as many objects of that size
from memory; `shoal import dir` takes in the tree that the peer has just made, so reading comes from
the page cache. The headline is the peer's time over that of bench put. shoal's clocks stop when
everything is durable and listed; the peer's stops when the last file is closed and nothing of it
need be on the device. `ratio_with_sync` adds the time of the peer's syncfs.

Where it may (as root, with loop devices), each round has a fresh ext4 of its own, in a file on the
repository's file system, for both sides alike: ext4 passes over inodes that were freed in the last
five minutes, so in a file system that has just lost a tree creating files is several times slower,
and losing one takes longer than creating it. Elsewhere the rounds run on the repository's file
system, and `settings` says so, with fewer files in a quick run.
"""

import contextlib
import os
import shutil
import time

import harness
from harness import Failed, SHOAL

SIZE = 1024
FULL, QUICK, QUICK_SHARED = 500_000, 100_000, 10_000
PEER = os.path.join(harness.BUILD, "bench", "peer_create")


def build_peer():
    source = os.path.join(harness.ROOT, "bench", "peer_create.c")
    if os.path.exists(PEER) and os.path.getmtime(PEER) >= os.path.getmtime(source):
        return
    os.makedirs(os.path.dirname(PEER), exist_ok=True)
    harness.run(["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-o", PEER, source, "-lpthread"])


def create_tree(tree, count):
    """Returns the seconds of creating, and of syncing afterwards."""
    os.makedirs(tree)
    _, out = harness.run([PEER, tree, str(count), str(SIZE)])
    figures = harness.last_json(out)
    seconds, _ = harness.run(["sync", "-f", tree])
    return figures["seconds"], seconds


def bench_put(data, count):
    wall, out = harness.run([SHOAL, "bench", "put", "--objects", str(count), "--size", str(SIZE),
                             "--data", data, "--json"])
    figures = harness.last_json(out)
    if figures["objects"] != count:
        raise Failed(f"bench put stored {figures['objects']} objects of {count}")
    return figures["seconds"], wall


def import_tree(data, tree, count):
    wall, out = harness.run([SHOAL, "import", "dir", tree, "bench", "--data", data, "--json"])
    figures = harness.last_json(out)
    if figures["copied"] != count or figures["failed"] or figures["skipped"]:
        raise Failed(f"import copied {figures['copied']} files of {count}")
    return wall


def disk_bytes(data):
    _, out = harness.run([SHOAL, "info", "--data", data, "--json"])
    return harness.last_json(out)["disk_bytes"]


def unmount(point):
    """Files of a process that has just ended may be open a moment longer."""
    for _ in range(50):
        try:
            harness.run(["umount", point])
            return
        except Failed as error:
            reason = error
            time.sleep(0.2)
    raise reason


@contextlib.contextmanager
def fresh_filesystem(folder, count):
    """A new ext4 in a file; yields where it is mounted. The file is written through once and used for
    all rounds: in blocks only reserved, each flush of the loop device would have to commit the file
    system below as well."""
    image, point = os.path.join(folder, f"image-{count}"), os.path.join(folder, "mounted")
    os.makedirs(point)
    if not os.path.exists(image):
        # A file and nearly a folder for each, and the stores beside them.
        harness.run(["dd", "if=/dev/zero", "of=" + image, "bs=8M", "oflag=direct", "status=none",
                     f"count={(2**30 + count * 20_000) // 2**23}"])
    harness.run(["mkfs.ext4", "-q", "-F", "-N", str(count * 3), "-E",
                 "lazy_itable_init=0,lazy_journal_init=0,nodiscard", image])
    _, device = harness.run(["losetup", "--show", "--direct-io=on", "-f", image])
    try:
        harness.run(["mount", device.strip(), point])
        try:
            yield point
        finally:
            unmount(point)
    finally:
        harness.run(["losetup", "-d", device.strip()])
        os.rmdir(point)


def can_mount(folder):
    try:
        with fresh_filesystem(folder, 5000):
            return True
    except (Failed, OSError) as error:
        harness.say(f"create: no file system of its own: {error}")
        shutil.rmtree(os.path.join(folder, "mounted"), ignore_errors=True)
        return False


def one_round(folder, count):
    tree, put, taken = (os.path.join(folder, name) for name in ("tree", "put", "import"))
    times = {}
    harness.settle(folder)
    times["create"], times["sync"] = create_tree(tree, count)
    harness.settle(folder)
    times["put"], times["put_process"] = bench_put(put, count)
    harness.settle(folder)
    times["import"] = import_tree(taken, tree, count)
    times["disk_bytes"] = disk_bytes(taken)
    harness.say("  " + ", ".join(f"{name} {times[name]:.2f} s"
                                 for name in ("create", "sync", "put", "import")))
    return times


def place_of_round(folder, number, own, count):
    if own:
        return fresh_filesystem(folder, count)
    path = os.path.join(folder, str(number))  # its trees stay until all rounds are over
    os.makedirs(path)
    return contextlib.nullcontext(path)


def all_rounds(folder, count, own, clock):
    rounds, longest = [], 0
    for number in range(3 if clock.quick else 5):
        if rounds and not clock.fits(longest * (1.2 if own else 3)):
            break
        before = clock.elapsed()
        with place_of_round(folder, number, own, count) as place:
            rounds.append(one_round(place, count))
        longest = max(longest, clock.elapsed() - before)
    return rounds


def run_create(quick):
    clock = harness.Clock(quick)
    build_peer()
    with harness.work_folder("create") as folder:
        own = can_mount(folder)
        count = FULL if not quick else QUICK if own else QUICK_SHARED
        settings = {**harness.machine(folder), "quick": quick, "objects": count,
                    "size_bytes": SIZE, "tree": "xx/xx/xx/xx.jpg, names spread by a hash",
                    "place": "a fresh ext4 for each round" if own else "the repository's",
                    "durability": "sync", "peer_threads": os.cpu_count()}
        harness.say(f"create: {count:,} files of {SIZE} bytes, on {settings['place']}")
        rounds = all_rounds(folder, count, own, clock)
    settings["rounds"] = len(rounds)
    times = {name: harness.median([each[name] for each in rounds]) for name in rounds[0]}
    return outcome(times, rounds, count, settings)


def peer_name(settings):
    return "ext4" if settings["place"] != "the repository's" else settings["filesystem"]


def outcome(times, rounds, count, settings):
    create, synced = times["create"], times["create"] + times["sync"]
    figures = {
        "import_s": times["import"],
        "import_ratio": create / times["import"],
        "import_target": 2.5,
        "import_met": create / times["import"] >= 2.5,
        "create_and_syncfs_s": synced,
        "ratio_with_sync": synced / times["put"],
        "import_ratio_with_sync": synced / times["import"],
        "ratio_whole_process": create / times["put_process"],
        "objects_per_s": {"put": count / times["put"], "import": count / times["import"],
                          "create": count / create},
        "disk_bytes_per_object_byte": times["disk_bytes"] / (count * SIZE),
        "runs": [{name: each[name] for name in ("create", "sync", "put", "import")}
                 for each in rounds],
    }
    return harness.result("create", "s", times["put"], {peer_name(settings): create},
                          create / times["put"], 10, figures, settings)
