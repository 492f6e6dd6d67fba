"""What users give by mistake: each ends in one line that says what, where, why and what to do."""

import os
import subprocess

import pytest

from manifest import raise_format_version
from conftest import Shoal, read_only, small_disk, wait_for, write

READING = [["ls"], ["ls", "demo"], ["get", "demo/x", "-"], ["stat", "demo/x"], ["info"], ["check"],
           ["export", "demo", "out"], ["bucket", "list"]]
WRITING = [["put", "-", "demo/y"], ["bucket", "create", "more"], ["import", "dir", ".", "demo"]]
NEEDS_STORE = [["rm", "demo/x"], ["bucket", "public", "demo"], ["bucket", "delete", "demo"]]


def one_line(result, *parts):
    assert result.err.count(b"\n") == 1, result.error
    for part in parts:
        assert part in result.error, result.error


@pytest.mark.parametrize("args", READING + NEEDS_STORE)
def test_missing_store(shoal, tmp_path, args):
    for name in ("absent", "empty", "full"):
        data = tmp_path / name
        if name != "absent":
            data.mkdir()
        if name == "full":
            write(data / "letter.txt", b"mine")
        one_line(shoal(*args, data=data, status=1, cwd=tmp_path), str(data))
        assert data.exists() == (name != "absent")
        assert name != "empty" or not os.listdir(data)
        assert name != "full" or os.listdir(data) == ["letter.txt"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("args", WRITING)
def test_writing_makes_a_store_only_where_nothing_is(shoal, tmp_path, args):
    source = tmp_path / "source"
    source.mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    for data in (tmp_path / "absent", empty):
        shoal(*args, data=data, cwd=source)
        shoal("info", data=data)
    full = tmp_path / "full"
    full.mkdir()
    write(full / "letter.txt", b"mine")
    one_line(shoal(*args, data=full, status=1, cwd=source), str(full))
    assert os.listdir(full) == ["letter.txt"]


@pytest.mark.parametrize("args", READING + WRITING + NEEDS_STORE)
def test_data_directory_is_a_file(shoal, tmp_path, args):
    data = tmp_path / "file"
    write(data, b"mine")
    one_line(shoal(*args, data=data, status=1, cwd=tmp_path), str(data), "directory")
    assert data.read_bytes() == b"mine"


def test_read_only_data_directory(shoal, tmp_path):
    shoal("put", "-", "demo/x", stdin=b"kept")
    with read_only(shoal.data):
        for args in WRITING + NEEDS_STORE:
            one_line(shoal(*args, status=1, cwd=tmp_path), shoal.data)
        assert shoal("get", "demo/x", "-").out == b"kept"
        assert shoal("stat", "demo/x", "--json").json["size"] == 4
        # These need the catalogue too: they do their work, or say what they need.
        for args in (["ls", "demo"], ["info"], ["check"], ["export", "demo", "out"]):
            result = shoal(*args, status=None, cwd=tmp_path)
            assert result.status in (0, 1)
            if result.status == 1:
                one_line(result, "Read-only file system", "writable")
    shoal("put", "-", "demo/y", stdin=b"again")


def test_store_of_a_newer_format(shoal, tmp_path):
    """The format version in the manifest, as doc/FORMAT.md places it, with its checksum mended."""
    shoal("put", "-", "demo/x", stdin=b"kept")
    raise_format_version(os.path.join(shoal.data, "MANIFEST"))
    for args in READING + WRITING + NEEDS_STORE:
        one_line(shoal(*args, status=1, cwd=tmp_path), shoal.data, "newer")


def test_store_in_use(shoal, tmp_path):
    shoal("put", "-", "demo/x", stdin=b"x")
    holder = shoal.start("put", "-", "demo/slow", stdin=subprocess.PIPE)
    try:
        wait_for(lambda: lock_holder(shoal) == str(holder.pid), "lock")
        for args in READING + WRITING + NEEDS_STORE:
            one_line(shoal(*args, status=1, cwd=tmp_path), shoal.data, str(holder.pid))
    finally:
        holder.stdin.write(b"done")
        status, _, err = stop_after_input(holder)
    assert status == 0, err
    assert shoal("get", "demo/slow", "-").out == b"done"


def lock_holder(shoal):
    with open(os.path.join(shoal.data, "LOCK"), encoding="ascii") as lock:
        return lock.read().strip()


def stop_after_input(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_keys_that_cannot_be(shoal, tmp_path):
    write(tmp_path / "file", b"x")
    longest = "k" * 1024
    shoal("put", tmp_path / "file", "demo/" + longest)
    assert shoal.keys("demo") == [longest.encode()]
    for args in (["put", "file", "demo/" + longest + "k"], ["get", "demo/" + longest + "k", "-"],
                 ["rm", "demo/" + longest + "k"], ["import", "dir", ".", "demo/" + longest + "k"]):
        one_line(shoal(*args, status=2, cwd=tmp_path), "1025", "1024")
    for key in ("demo", "demo/"):
        one_line(shoal("put", "file", key, status=2, cwd=tmp_path), "empty")
    for bucket in ("xy", "Demo", "-demo", "demo-", "b" * 64, "de mo", ""):
        one_line(shoal("put", "--", "file", bucket + "/x", status=2, cwd=tmp_path), "bucket name")


def test_missing_things(shoal, tmp_path):
    shoal("put", "-", "demo/x", stdin=b"x")
    one_line(shoal("get", "demo/y", "-", status=1), "demo/y", "no such object", "ls")
    one_line(shoal("stat", "demo/y", status=1), "demo/y")
    one_line(shoal("get", "none/y", "-", status=1), "none", "bucket")
    one_line(shoal("ls", "none", status=1), "none", "no such bucket")
    one_line(shoal("export", "none", tmp_path / "out", status=1), "none", "no such bucket")
    one_line(shoal("export", "demo/none", tmp_path / "out", status=1), "demo/none")
    one_line(shoal("put", tmp_path / "none", "demo/x", status=1), "none", "No such file")
    one_line(shoal("put", tmp_path, "demo/x", status=1), "import dir")
    one_line(shoal("import", "dir", tmp_path / "none", "demo", status=1), "none", "No such file")
    one_line(shoal("export", "demo", tmp_path / "no" / "such", status=1), "such", "No such file")
    one_line(shoal("import", "dir", shoal.data, "demo", status=1), "data directory itself")
    write(tmp_path / "file", b"x")
    one_line(shoal("export", "demo", tmp_path / "file", status=1), "file", "directory")
    one_line(shoal("import", "dir", tmp_path / "file", "demo", status=1), "directory")


def test_bucket_actions(shoal):
    shoal("bucket", "create", "demo")
    one_line(shoal("bucket", "create", "demo", status=1), "demo", "exists already")
    shoal("bucket", "create", "open", "--public")
    shoal("bucket", "public", "demo")
    rows = shoal("bucket", "list", "--json").json
    assert [(r["name"], r["public"]) for r in rows] == [("demo", True), ("open", True)]
    shoal("bucket", "private", "demo")
    assert shoal("bucket", "list").out.decode().splitlines()[0].startswith("private")
    shoal("put", "-", "demo/x", stdin=b"x")
    one_line(shoal("bucket", "delete", "demo", status=1), "demo", "rm -r")
    shoal("rm", "demo/x")
    shoal("bucket", "delete", "demo")
    one_line(shoal("bucket", "delete", "demo", status=1), "demo", "no such bucket")
    one_line(shoal("bucket", "public", "demo", status=1), "demo", "no such bucket")
    assert [r["name"] for r in shoal("bucket", "list", "--json").json] == ["open"]


def test_object_larger_than_the_disk(tmp_path):
    with small_disk(160 << 20, tmp_path) as disk:
        shoal = Shoal(os.path.join(disk, "data"))
        shoal("put", "-", "demo/small", stdin=b"small")
        big = tmp_path / "big"
        with open(big, "wb") as file:
            file.truncate(400 << 20)
        one_line(shoal("put", big, "demo/big", status=1), "demo/big", "no space for 400.0 MiB")
        # From a pipe nobody knows beforehand.
        with subprocess.Popen(["cat", big], stdout=subprocess.PIPE) as pipe:
            process = shoal.start("put", "-", "demo/big", stdin=pipe.stdout)
            pipe.stdout.close()
            _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert err.count(b"\n") == 1 and b"demo/big" in err and b"pace" in err, err
        assert shoal("get", "demo/small", "-").out == b"small"
        assert shoal.keys("demo") == [b"small"]
        shoal("put", "-", "demo/after", stdin=b"after")
        assert shoal.keys("demo") == [b"after", b"small"]
        assert shoal("get", "demo/after", "-").out == b"after"


def test_a_file_larger_than_the_disk_does_not_stop_an_import(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for i in range(20):
        write(tree / f"small-{i}", b"small")
    with open(tree / "big", "wb") as file:
        file.truncate(400 << 20)
    with small_disk(160 << 20, tmp_path) as disk:
        shoal = Shoal(os.path.join(disk, "data"))
        result = shoal("import", "dir", tree, "demo", "--json", status=1)
        assert (result.json["copied"], result.json["failed"]) == (20, 1)
        one_line(result, "/big: larger than the free space")
        assert len(shoal.keys("demo")) == 20


def test_disk_full_in_the_middle_of_an_import(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for i in range(3000):
        write(tree / f"{i:04}.bin", os.urandom(64 << 10))
    with small_disk(160 << 20, tmp_path) as disk:
        shoal = Shoal(os.path.join(disk, "data"))
        ballast = os.path.join(disk, "ballast")
        with open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 64 << 20)
        first = shoal("import", "dir", tree, "demo", "--json", status=1)
        assert first.json["complete"] is False
        assert first.json["failed"] >= 1
        one_line(first, "No space left", "free space", "same command continues")
        stored = shoal.keys("demo")
        assert len(stored) >= first.json["copied"] > 0
        assert shoal("get", b"demo/" + stored[0], "-").out == (
            tree / stored[0].decode()).read_bytes()
        # Room for the rest: the ballast goes, and so do the largest part of the files.
        os.unlink(ballast)
        for i in range(1200, 3000):
            os.unlink(tree / f"{i:04}.bin")
        again = shoal("import", "dir", tree, "demo", "--json").json
        assert again["complete"] is True
        assert again["copied"] + again["unchanged"] == 1200
        assert again["unchanged"] > 0
        for i in (0, 599, 1199):
            name = f"{i:04}.bin"
            assert shoal("get", "demo/" + name, "-").out == (tree / name).read_bytes()
