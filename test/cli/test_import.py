"""import dir and export: trees of every kind, stops, changes, verification."""

import fcntl
import json
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

from conftest import SHOAL, Shoal, fast_folder, files_of, peak_rss_bytes, stop, write

SANITIZED = b"__asan_init" in open(SHOAL, "rb").read() if os.path.exists(SHOAL) else False
RSS_LIMIT_BYTES = (1024 if SANITIZED else 256) << 20


def import_json(shoal, *args, status=0):
    return shoal("import", "dir", *args, "--json", status=status).json


def test_import_and_export_give_back_the_same_tree(shoal, tree, tmp_path):
    counts = import_json(shoal, tree, "demo")
    size = sum(len(data) for data, _ in files_of(tree).values())
    assert (counts["copied"], counts["unchanged"], counts["skipped"], counts["failed"],
            counts["bytes"]) == (5, 0, 0, 0, size)
    assert shoal.keys("demo") == sorted(files_of(tree))
    out = tmp_path / "out"
    assert shoal("export", "demo", out, "--json").json["exported"] == 5
    assert files_of(out) == files_of(tree)
    os.rmdir(tree / "empty")
    assert subprocess.run(["diff", "-r", tree, out], capture_output=True).stdout == b""
    types = {key: shoal("stat", b"demo/" + key, "--json").json["content_type"]
             for key in files_of(tree)}
    assert types[b"a/one.txt"] == "text/plain"
    assert types[b"a/b/two.jpg"] == "image/jpeg"
    assert types[b"not-utf8-\xff\xfe\n.png"] == "image/png"


def test_prefix_is_joined_and_stripped(shoal, tree, tmp_path):
    import_json(shoal, tree, "demo/some/where")
    assert all(key.startswith(b"some/where/") for key in shoal.keys("demo"))
    shoal("put", "-", "demo/some/wherever", stdin=b"not below it")
    shoal("export", "demo/some/where", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(tree)
    assert import_json(shoal, tree, "demo/some/where/")["unchanged"] == 5
    shoal("export", "demo/some/where/", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(tree)


def test_run_again_copies_only_what_is_new_or_changed(shoal, tree):
    import_json(shoal, tree, "demo")
    assert import_json(shoal, tree, "demo")["unchanged"] == 5
    write(tree / "new", b"new")
    write(tree / "a" / "one.txt", b"one!\n", 1_600_000_000_123_456_789)  # size alone
    os.utime(tree / "nothing", ns=(5, 1_400_000_001_000_000_000))  # time alone
    counts = import_json(shoal, tree, "demo")
    assert (counts["copied"], counts["unchanged"]) == (3, 3)
    assert shoal("get", "demo/a/one.txt", "-").out == b"one!\n"
    assert shoal("stat", "demo/nothing", "--json").json["mtime_ns"] == 1_400_000_001_000_000_000
    assert import_json(shoal, tree, "demo")["copied"] == 0


def test_checksum_compares_contents(shoal, tree):
    import_json(shoal, tree, "demo")
    write(tree / "a" / "one.txt", b"two\n", 1_600_000_000_123_456_789)  # same size and time
    os.utime(tree / "nothing", ns=(5, 5_000_000_000))  # other time, same content
    assert import_json(shoal, tree, "demo")["copied"] == 1
    assert shoal("get", "demo/a/one.txt", "-").out == b"one\n"
    counts = import_json(shoal, tree, "demo", "--checksum")
    assert (counts["copied"], counts["unchanged"]) == (1, 4)
    assert shoal("get", "demo/a/one.txt", "-").out == b"two\n"
    with open(tree / "large.bin", "r+b") as file:
        file.seek(4_200_000)
        file.write(b"#")
    assert import_json(shoal, tree, "demo", "--checksum", "--verify")["copied"] == 1


def test_links_and_special_files_are_skipped_and_named(shoal, tree, tmp_path):
    write(tmp_path / "secret", b"outside")
    os.symlink(tmp_path / "secret", tree / "link")
    os.symlink(tmp_path, tree / "link-to-dir")
    os.symlink("nowhere", tree / "dangling")
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.fspath(tree / "sock"))
        result = shoal("import", "dir", tree, "demo", "--json")
    assert result.json["skipped"] == 5 and result.json["failed"] == 0
    for name in ("link", "link-to-dir", "dangling", "pipe", "sock"):
        assert f"skipped {tree}/{name}: " in result.error
    assert len(shoal.keys("demo")) == 5


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"),
                    reason="root can read everything")
def test_what_cannot_be_read_is_named_and_the_rest_goes_on(shoal, tree, tmp_path):
    os.chmod(tree / "a" / "one.txt", 0)
    os.chmod(tree / "a" / "b", 0)
    command = [SHOAL, "import", "dir", tree, "demo", "--json"]
    if os.geteuid() == 0:
        # Without the capabilities by which root reads everything.
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                   "--inh-caps=-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, env=shoal.environment(), capture_output=True, timeout=60)
    os.chmod(tree / "a" / "b", 0o755)
    assert done.returncode == 1, done.stderr
    assert b'"copied":3,' in done.stdout and b'"failed":2,' in done.stdout
    assert b"/a/one.txt: Permission denied" in done.stderr
    assert b"/a/b: Permission denied" in done.stderr


def test_paths_too_long_for_a_key(shoal, tmp_path):
    """1,024 bytes fit; one more does not, in a name or in a directory, whatever PATH_MAX is."""
    top = tmp_path / "deep"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(40):  # 40 * 200 bytes: beyond PATH_MAX as well
        os.mkdir("d" * 199, dir_fd=fd)
        deeper = os.open("d" * 199, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
        with os.fdopen(os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "wb") as file:
            file.write(b"x")
    os.close(fd)
    fourth = top.joinpath(*["d" * 199] * 4)
    exact = 1024 - 800
    write(fourth / ("e" * exact), b"fits")
    write(fourth / ("e" * (exact + 1)), b"does not")
    result = shoal("import", "dir", top, "demo", "--json", status=1)
    assert result.json["copied"] == 6  # f at levels 1 to 5, and the one that fits
    assert result.json["failed"] >= 2
    assert "exceed 1024 bytes" in result.error
    assert max(len(key) for key in shoal.keys("demo")) == 1024
    subprocess.run(["rm", "-rf", top], check=True)


def test_data_directory_inside_the_tree_is_left_out(tree):
    shoal = Shoal(tree / "a" / "store")
    result = shoal("import", "dir", tree, "demo", "--json")
    assert result.json["copied"] == 5 and result.json["skipped"] == 1
    assert "own data directory" in result.error
    assert not any(b"store" in key for key in shoal.keys("demo"))


MANY = 20_000


@pytest.fixture(scope="session")
def many():
    """Files enough to interrupt their import; shared, so never changed."""
    with fast_folder(200 << 20) as folder:
        top = os.path.join(folder, "top")
        make_many(top, 40, MANY // 40)
        os.symlink("x", os.path.join(top, "link"))
        yield top


def test_stopped_by_a_signal_it_continues(tmp_path, many):
    """Tried with growing delays until the signal arrives in the middle."""
    for attempt in range(40):
        shoal = Shoal(tmp_path / f"data-{attempt}")
        process = shoal.start("import", "dir", many, "demo", "--json")
        time.sleep(0.01 * attempt)
        status, out, err = stop(process, signal.SIGINT)
        counts = json.loads(out) if out else {"copied": 0}
        if counts["copied"] and not counts["complete"]:
            break
        assert status in (-signal.SIGINT, 0), err  # before, after, or at the very start of it
    assert status == 0 and counts["complete"] is False
    assert b"same command continues" in err
    copied = counts["copied"]
    assert 0 < copied < MANY and len(shoal.keys("demo")) == copied
    counts = import_json(shoal, many, "demo", "--verify")
    assert (counts["unchanged"], counts["copied"]) == (copied, MANY - copied)
    assert counts["verified"] == MANY and counts["complete"] is True


def test_killed_it_continues(shoal, many):
    for delay in (0.05, 0.1, 0.15):
        process = shoal.start("import", "dir", many, "demo")
        time.sleep(delay)
        stop(process, signal.SIGKILL)
    assert import_json(shoal, many, "demo", "--verify")["verified"] == MANY
    assert len(shoal.keys("demo")) == MANY


def make_many(top, folders, files, size=100):
    for i in range(folders):
        folder = os.path.join(top, f"{i:02}")
        os.makedirs(folder)
        for j in range(files):
            with open(os.path.join(folder, f"{j:05}"), "wb") as file:
                file.write(b"%d/%d" % (i, j) + b"." * size)


def test_a_file_that_changes_while_it_is_read(shoal, tmp_path):
    top = tmp_path / "tree"
    top.mkdir()
    restless = top / "restless"
    with open(restless, "wb") as file:
        file.truncate(64 << 20)
    write(top / "quiet", b"quiet")
    writer = subprocess.Popen(["/usr/bin/python3", "-c", """
import sys, time
with open(sys.argv[1], "r+b") as file:
    while True:
        file.seek(0)
        file.write(b"%f" % time.monotonic())
        file.flush()
        time.sleep(0.001)
""", restless])
    try:
        result = shoal("import", "dir", top, "demo", "--json", status=1)
    finally:
        stop(writer, signal.SIGKILL)
    assert result.json["copied"] == 1 and result.json["failed"] == 1
    assert "restless: changes while it is read" in result.error
    assert shoal.keys("demo") == [b"quiet"]
    assert import_json(shoal, top, "demo")["copied"] == 1


def test_verify_notices_what_differs(shoal, tree):
    import_json(shoal, tree, "demo", "--verify")
    # Same size and time, other bytes: only verification can tell.
    write(tree / "a" / "one.txt", b"eno\n", 1_600_000_000_123_456_789)
    result = shoal("import", "dir", tree, "demo", "--verify", "--json", status=1)
    assert result.json["mismatched"] == 1 and result.json["verified"] == 4
    assert "one.txt: the stored bytes differ" in result.error


def test_times_before_1970_and_at_its_first_nanosecond(shoal, tmp_path):
    top = tmp_path / "tree"
    top.mkdir()
    for name, mtime_ns in (
        ("old", -1_500_000_001), ("zero", 0), ("one", 1), ("far", 4_000_000_000_999_999_999)):
        write(top / name, b"x", mtime_ns)
    import_json(shoal, top, "demo")
    assert import_json(shoal, top, "demo")["unchanged"] == 4
    shoal("export", "demo", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(top)


def test_200000_files_in_one_directory_in_little_memory(shoal):
    with fast_folder(400 << 20) as top:
        fd = os.open(top, os.O_RDONLY)
        for i in range(200_000):
            os.close(os.open(f"picture-number-{i:08}.jpg", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        process = shoal.start("import", "dir", top, "demo", "--json", stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, peak_rss_bytes(process))
            time.sleep(0.01)
        out = process.stdout.read()
        process.stdout.close()
        assert process.returncode == 0
        assert b'"copied":200000,' in out
        assert 0 < peak < RSS_LIMIT_BYTES, peak
        assert import_json(shoal, top, "demo")["unchanged"] == 200_000


def test_random_trees(shoal, tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    top = os.fsencode(tmp_path / "tree")
    folders = [top]
    os.mkdir(top)
    for _ in range(60):
        name = random_name(rng)
        path = os.path.join(rng.choice(folders), name)
        if not os.path.lexists(path) and len(path) - len(top) < 900:
            os.mkdir(path)
            folders.append(path)
    for _ in range(500):
        path = os.path.join(rng.choice(folders), random_name(rng))
        if not os.path.lexists(path) and len(path) - len(top) <= 1024:
            write(path, rng.randbytes(rng.choice([0, 1, 100, 4096, 70_000])),
                  rng.randrange(1 << 60))
    import_json(shoal, top, "demo", "--verify")
    assert shoal.keys("demo") == sorted(files_of(top))
    shoal("export", "demo", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(top)


def random_name(rng):
    length = rng.choice([1, 2, 3, 8, 8, 8, 60, 255])
    name = bytes(rng.choice([b for b in range(1, 256) if b != 0x2f]) for _ in range(length))
    return name if name not in (b".", b"..") else b"dot"


# --- progress ---


def run_on_terminal(shoal, columns, *args):
    """Standard error as a terminal of that width gets it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = shoal.start(*args, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(60), shown


def test_progress_bar_on_a_terminal(shoal, many):
    status, shown = run_on_terminal(shoal, 100, "import", "dir", many, "demo")
    assert status == 0
    frames = [part.replace(b"\x1b[K", b"") for part in re.split(rb"[\r\n]", shown)]
    bars = [frame for frame in frames if frame.startswith(b"importing")]
    assert bars, shown
    assert all(len(bar) < 100 for bar in bars)
    assert any(b" files" in bar and b"/s" in bar for bar in bars)
    assert any(re.search(rb"\[=*>? *\] \d+%", bar) for bar in bars), bars
    assert any(b"skipped" in frame and frame.startswith(b"shoal import: ") for frame in frames)
    assert frames[-1] == b""


def test_plain_lines_elsewhere(shoal, tmp_path):
    """Every five seconds, without control characters: a slow pipe takes long enough."""
    reader, writer = os.pipe()
    process = shoal.start("put", "-", "demo/slow", stdin=reader)
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        for _ in range(7):
            pipe.write(b"x" * (4 << 20))
            pipe.flush()
            time.sleep(0.9)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert re.search(rb"^storing: [0-9.]+ MiB, [0-9.]+ [KMG]iB/s\n", err), err
    assert b"\r" not in err and b"\x1b" not in err


# --- export ---


def test_export_refuses_what_cannot_be_a_file_and_exports_the_rest(shoal, tmp_path):
    good = [b"a", b"a!", b"a-b/c", b"b/c/d", b"...", b"x" * 255, b"n\xff\n"]
    bad = [b"..", b".", b"../up", b"a/../../up", b"/lead", b"trail/", b"a//b", b"a/b", b"a/b/c",
           b"b/c/d/e", b"./dot", b"y" * 256, b"z/" + b"y" * 256 + b"/z"]
    for key in good + bad:
        shoal("put", "-", b"demo/" + key, stdin=key)
    out = tmp_path / "in" / "out"
    os.makedirs(out)
    result = shoal("export", "demo", out, "--json", status=1)
    assert {k: v[0] for k, v in files_of(out).items()} == {k: k for k in good}
    assert result.json["exported"] == len(good) and result.json["refused"] == len(bad)
    assert result.err.count(b"not exported") == len(bad) == result.err.count(b"\n")
    for key in bad:
        assert b"demo/" + key + b": not exported" in result.err
    assert os.listdir(tmp_path / "in") == ["out"]


def test_export_follows_no_links_in_its_target(shoal, tmp_path):
    for key in ("dir/x", "dir2/sub/x", "file", "plain"):
        shoal("put", "-", "demo/" + key, stdin=b"exported")
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside / "victim", b"untouched")
    out = tmp_path / "out"
    os.makedirs(out / "dir2")
    os.symlink(outside, out / "dir")
    os.symlink("../../outside", out / "dir2" / "sub")
    os.symlink(outside / "victim", out / "file")
    result = shoal("export", "demo", out, status=1)
    assert files_of(outside) == {b"victim": (b"untouched", os.stat(outside / "victim").st_mtime_ns)}
    assert "demo/dir/x: not exported: a symbolic link" in result.error
    assert "demo/dir2/sub/x: not exported: a symbolic link" in result.error
    assert (out / "plain").read_bytes() == b"exported"
    # The link itself was replaced, as a rename does.
    assert not os.path.islink(out / "file") and (out / "file").read_bytes() == b"exported"


def test_export_over_an_existing_tree(shoal, tree, tmp_path):
    import_json(shoal, tree, "demo")
    out = tmp_path / "out"
    shoal("export", "demo", out)
    write(out / "a" / "one.txt", b"changed here")
    write(out / "mine", b"stays")
    shoal("export", "demo", out)
    assert (out / "mine").read_bytes() == b"stays"
    os.unlink(out / "mine")
    assert files_of(out) == files_of(tree)
    os.unlink(out / "nothing")
    os.makedirs(out / "nothing" / "x")
    os.unlink(out / "a" / "b" / "two.jpg")
    os.rmdir(out / "a" / "b")
    write(out / "a" / "b", b"a file in the way")
    result = shoal("export", "demo", out, status=1)
    assert "demo/nothing: not exported: a directory is where" in result.error
    assert "demo/a/b/two.jpg: not exported: a file is where" in result.error
    assert not [name for _, _, names in os.walk(out) for name in names if name.endswith(".part")]


def test_export_of_many_files_keeps_the_tree(shoal, many):
    import_json(shoal, many, "demo")
    with fast_folder(200 << 20) as out:
        shoal("export", "demo", out)
        done = subprocess.run(["diff", "-r", "--no-dereference", many, out], capture_output=True)
    assert done.stdout.decode() == f"Only in {many}: link\n"


def test_bench_put_stores_distinct_objects(shoal):
    result = shoal("bench", "put", "--objects", "5000", "--size", "1K", "--json").json
    assert result["objects"] == 5000 and result["bytes"] == 5_120_000
    assert result["seconds"] > 0 and result["puts_per_second"] > 0
    rows = shoal("ls", "bench", "--json").json
    assert len({row["key"] for row in rows}) == 5000 == len({row["etag"] for row in rows})
    assert all(re.fullmatch("([0-9a-f]{2}/){3}[0-9a-f]{2}\\.jpg", row["key"]) for row in rows)
    assert all(row["size"] == 1024 for row in rows)
    shoal("check")
