"""put, get, stat, ls, rm."""

import base64
import hashlib
import os
import pty
import subprocess

import pytest

from conftest import SHOAL, write


def test_put_and_get_give_back_bytes_type_and_time(shoal, tmp_path):
    picture = tmp_path / "cat.jpg"
    write(picture, os.urandom(40_000), 1_600_000_000_123_456_789)
    put = shoal("put", picture, "demo/pets/cat.jpg", "--json").json
    assert put["size"] == 40_000
    assert put["etag"] == '"' + hashlib.md5(picture.read_bytes()).hexdigest() + '"'
    back = tmp_path / "back.jpg"
    shoal("get", "demo/pets/cat.jpg", back)
    assert back.read_bytes() == picture.read_bytes()
    assert os.stat(back).st_mtime_ns == 1_600_000_000_123_456_789
    stat = shoal("stat", "--json", "demo/pets/cat.jpg").json
    assert stat["content_type"] == "image/jpeg"
    assert stat["mtime_ns"] == 1_600_000_000_123_456_789
    assert stat["bucket"] == "demo" and stat["key"] == "pets/cat.jpg"
    text = shoal("stat", "demo/pets/cat.jpg").out.decode()
    assert "40,000 bytes" in text and "image/jpeg" in text and "2020-09-13T12:26:40Z" in text


@pytest.mark.parametrize("size", [0, 1, 4 * 1024 * 1024, 4 * 1024 * 1024 + 1, 13_000_000])
def test_pipes_of_any_length(shoal, size):
    data = os.urandom(size)
    shoal("put", "-", "demo/pipe", stdin=data)
    assert shoal("get", "demo/pipe", "-").out == data
    assert shoal("stat", "demo/pipe", "--json").json["size"] == size


def test_put_replaces_and_takes_a_type(shoal, tmp_path):
    shoal("put", "-", "demo/x.jpg", "--type", "text/weird", stdin=b"first")
    assert shoal("stat", "demo/x.jpg", "--json").json["content_type"] == "text/weird"
    shoal("put", "--type=image/png", "-", "demo/x.jpg", stdin=b"second!")
    assert shoal("stat", "demo/x.jpg", "--json").json["content_type"] == "image/png"
    assert shoal("get", "demo/x.jpg", "-").out == b"second!"
    assert shoal("ls", "--json").json[0]["objects"] == 1


def test_type_from_the_first_bytes(shoal):
    for head, wanted in [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"<svg xmlns='x'>", "image/svg+xml"),
                         (b"plain words\n", "text/plain"), (b"\0\1\2\3", "binary/octet-stream")]:
        shoal("put", "-", "demo/nameless", stdin=head)
        assert shoal("stat", "--json", "demo/nameless").json["content_type"] == wanted


def test_get_names_the_file_like_the_key(shoal, tmp_path):
    shoal("put", "-", "demo/dir/name.txt", stdin=b"hello")
    folder = tmp_path / "here"
    folder.mkdir()
    shoal("get", "demo/dir/name.txt", cwd=folder)
    assert (folder / "name.txt").read_bytes() == b"hello"
    (folder / "sub").mkdir()
    shoal("get", "demo/dir/name.txt", folder / "sub")
    assert (folder / "sub" / "name.txt").read_bytes() == b"hello"
    shoal("put", "-", "demo/dir/..", stdin=b"up")
    assert "suggests no file name" in shoal("get", "demo/dir/..", cwd=folder, status=2).error


def test_get_leaves_nothing_half_done(shoal, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    shoal("bucket", "create", "demo")
    shoal("get", "demo/absent", target, status=1)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["data", "target"]
    shoal("put", "-", "demo/x", stdin=b"new")
    assert "No such file" in shoal("get", "demo/x", tmp_path / "no" / "dir", status=1).error


def test_get_writes_through_links_and_into_devices(shoal, tmp_path):
    shoal("put", "-", "demo/x", stdin=b"new")
    (tmp_path / "real").write_bytes(b"old")
    os.symlink("real", tmp_path / "link")
    shoal("get", "demo/x", tmp_path / "link")
    assert os.path.islink(tmp_path / "link")
    assert (tmp_path / "real").read_bytes() == b"new"
    shoal("get", "demo/x", "/dev/null")
    assert not os.path.isfile("/dev/null")


def test_standard_output_that_is_full(shoal):
    shoal("put", "-", "demo/x", stdin=b"x" * 100_000)
    with open("/dev/full", "wb") as full:
        for args in (["get", "demo/x", "-"], ["ls", "demo"], ["info"], ["--help"]):
            done = subprocess.run([SHOAL, *args], stdout=full, stderr=subprocess.PIPE,
                                  env=shoal.environment(), timeout=60)
            assert done.returncode == 1, args
            assert b"No space left" in done.stderr


def test_ls_lists_by_prefix_in_byte_order(shoal):
    for key in ["b", "a/2", "a/1", "a0", "a", "ä"]:
        shoal("put", "-", "demo/" + key, stdin=key.encode())
    assert shoal.keys("demo") == [b"a", b"a/1", b"a/2", b"a0", b"b", "ä".encode()]
    assert shoal.keys("demo/a/") == [b"a/1", b"a/2"]
    assert shoal.keys("demo/nothing") == []
    rows = shoal("ls", "demo", "--json").json
    assert [row["key"] for row in rows] == ["a", "a/1", "a/2", "a0", "b", "ä"]
    assert rows[1]["size"] == 3
    assert shoal("ls", "demo/zzz", "--json").json == []
    lines = shoal("ls", "demo/a/").out.decode().splitlines()
    assert len(lines) == 2 and lines[0].split()[0] == "3" and lines[0].endswith("  a/1")


def test_ls_without_argument_lists_buckets(shoal):
    shoal("put", "-", "one/x", stdin=b"12345")
    shoal("bucket", "create", "two", "--public")
    rows = shoal("ls", "--json").json
    assert [(r["name"], r["public"], r["objects"], r["bytes"]) for r in rows] == [
        ("one", False, 1, 5), ("two", True, 0, 0)]
    assert b"one" in shoal("ls").out


def test_strange_keys_are_kept_and_shown_safely(shoal):
    raw = b"esc\x1b[31m\xff\n\xe2\x80\xaeend"
    shoal("put", "-", b"demo/" + raw, stdin=b"x")
    assert shoal.keys("demo") == [raw]
    assert raw in shoal("ls", "demo").out
    row = shoal("ls", "demo", "--json").json[0]
    assert base64.b64decode(row["key_base64"]) == raw
    assert "\ufffd" in row["key"]
    shown = on_terminal(shoal, "ls", "demo")
    assert b"\x1b[31m" not in shown and b"\xff" not in shown
    assert rb"esc\x1b[31m\xff\n\xe2\x80\xaeend" in shown
    error = shoal("get", b"demo/no" + raw, "-", status=1).err
    assert b"\x1b" not in error and error.count(b"\n") == 1


def on_terminal(shoal, *args):
    """Standard output as a terminal sees it."""
    ours, theirs = pty.openpty()
    process = shoal.start(*args, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    return shown


def test_rm_one_and_several(shoal):
    for key in "abc":
        shoal("put", "-", "demo/" + key, stdin=b"x")
    shoal("rm", "demo/a")
    assert shoal.keys("demo") == [b"b", b"c"]
    result = shoal("rm", "demo/a", "demo/b", status=1)
    assert "demo/a" in result.error and "no such object" in result.error
    assert shoal.keys("demo") == [b"c"]
    assert shoal("rm", "demo/c", "--json").json == {"removed": 1}


def test_rm_recursive_stops_at_segments(shoal):
    for key in ["photo", "photo/1", "photo/x/2", "photos/3", "phot"]:
        shoal("put", "-", "demo/" + key, stdin=b"x")
    assert b"3 objects removed" in shoal("rm", "-r", "demo/photo").out
    assert shoal.keys("demo") == [b"phot", b"photos/3"]
    assert "no such object" in shoal("rm", "-r", "demo/photo", status=1).error
    assert shoal("rm", "-r", "demo", "--json").json == {"removed": 2}
    assert shoal.keys("demo") == []
    shoal("rm", "-r", "demo")
    shoal("bucket", "delete", "demo")


def test_dots_and_slashes_are_bytes(shoal):
    keys = [b"..", b".", b"../x", b"/lead", b"trail/", b"a//b", b"a/./b"]
    for key in keys:
        shoal("put", "-", b"demo/" + key, stdin=key)
    assert shoal.keys("demo") == sorted(keys)
    for key in keys:
        assert shoal("get", b"demo/" + key, "-").out == key
