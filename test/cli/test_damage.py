"""Files of a store that are not those that the manifest speaks of: opening refuses them by name, since
going on would answer "no such object" for what was acknowledged. Nothing is changed by the refusal."""

import os
import re
import shutil

import pytest

KEYS = [b"a", b"b", b"c"]
SECOND = os.path.join("seg", "0000000000000002")
THIRD = os.path.join("seg", "0000000000000003")


@pytest.fixture
def filled(shoal):
    """Each put is a life of its own, and so a segment of its own."""
    for key in KEYS:
        shoal("put", "-", b"bucket/" + key, stdin=3000 * key)
    return shoal


def read(shoal, name):
    with open(os.path.join(shoal.data, name), "rb") as file:
        return file.read()


def write(shoal, name, content):
    with open(os.path.join(shoal.data, name), "wb") as file:
        file.write(content)


def entries(manifest):
    """Offset and kind of each entry's first edit, and the end."""
    found = [(m.start(), manifest[m.start() + 24]) for m in re.finditer(b"SMNF", manifest)]
    return found + [(len(manifest), None)]


def refused(shoal, named):
    before = read(shoal, "MANIFEST")
    for args in (["check"], ["ls", "bucket"], ["stat", "bucket/b"], ["put", "-", "bucket/new"]):
        error = shoal(*args, status=3).error
        assert os.path.join(shoal.data, named) in error, error
        assert "backup" in error, error
    assert read(shoal, "MANIFEST") == before


def test_manifest_of_zeros(filled):
    write(filled, "MANIFEST", bytes(len(read(filled, "MANIFEST"))))
    refused(filled, "MANIFEST")


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_last_segment_forgotten(filled, how):
    """The entry that named it looks like one that a crash tore; the segment's groups tell."""
    manifest = bytearray(read(filled, "MANIFEST"))
    places = entries(manifest)
    at = [offset for offset, kind in places if kind == 2][-1]
    end = min(offset for offset, _ in places if offset > at)
    manifest[at + 30] ^= 1
    write(filled, "MANIFEST", manifest[:end] if how == "flipped" else manifest[:at])
    refused(filled, "MANIFEST")


def test_torn_entry_is_no_damage(filled):
    write(filled, "MANIFEST", read(filled, "MANIFEST") + b"SMNF torn")
    filled("check")


def test_segment_missing(filled):
    os.unlink(os.path.join(filled.data, SECOND))
    refused(filled, SECOND)


def test_segments_swapped(filled):
    second, third = read(filled, SECOND), read(filled, THIRD)
    write(filled, SECOND, third)
    write(filled, THIRD, second)
    refused(filled, SECOND)


def test_segment_of_another_store(filled, tmp_path):
    other = os.fspath(tmp_path / "other")
    for key in KEYS:
        filled("put", "-", b"bucket/" + key, stdin=3000 * key, data=other)
    shutil.copyfile(os.path.join(other, SECOND), os.path.join(filled.data, SECOND))
    refused(filled, SECOND)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_segment_is_no_file(filled, make):
    """Refused, and a pipe is not waited for."""
    os.unlink(os.path.join(filled.data, SECOND))
    make(os.path.join(filled.data, SECOND))
    for args in (["check"], ["put", "-", "bucket/new"]):
        assert os.path.join(filled.data, SECOND) in filled(*args, status=1).error


@pytest.mark.parametrize("bytes_left", [0, 100, 4096])
def test_segment_cut_off(filled, bytes_left):
    os.truncate(os.path.join(filled.data, SECOND), bytes_left)
    refused(filled, SECOND)


def test_footer_cut_off(filled):
    """Costs nothing but time: the records are walked."""
    os.truncate(os.path.join(filled.data, SECOND), len(read(filled, SECOND)) - 1)
    assert "footer" in filled("check", status=3).out.decode()
    for key in KEYS:
        assert filled("get", b"bucket/" + key, "-").out == 3000 * key


def test_bucket_record_damaged(filled):
    """The bucket is not taken for absent, and making it again brings its objects back."""
    first = os.path.join("seg", "0000000000000001")
    content = bytearray(read(filled, first))
    content[content.index(b"bbucket")] ^= 1
    write(filled, first, content)
    filled("check", status=3)
    for args in (["stat", "bucket/b"], ["get", "bucket/b", "-"], ["ls", "bucket"],
                 ["put", "-", "bucket/d"], ["bucket", "public", "bucket"]):
        assert "damaged" in filled(*args, status=3).error, args
    assert "no such bucket" in filled("ls", "other", status=1).error
    filled("bucket", "create", "bucket")
    assert filled("ls", "-0", "bucket").out == b"a\0b\0c\0"
    for key in KEYS:
        assert filled("get", b"bucket/" + key, "-").out == 3000 * key


def test_token_is_a_pipe(filled):
    os.mkfifo(os.path.join(filled.data, "access.token"), 0o600)
    error = filled("serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", status=1).error
    assert "access.token: is no file" in error
