"""info, check and bucket while a server holds the store: they go through DIR/admin.sock."""

import contextlib
import fcntl
import http.server
import json
import os
import socketserver
import subprocess
import threading

import pytest

from conftest import Shoal, stop, wait_for

INFO = {"objects": 12, "data_bytes": (1 << 60) + 1, "live_bytes": 3, "segment_bytes": 4,
        "disk_bytes": 5, "index_ram_bytes": 6, "sequence": (1 << 62) + 7, "catalogue_sequence": 8,
        "segments": 9, "buckets": 10, "reaping_bytes": 11}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path, answers):
        super().__init__(path, Handler)
        self.answers = answers
        self.asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        asked = f"{self.command} {self.path}"
        self.server.asked.append(asked)
        status, body = self.server.answers.get(asked, (404, b'{"error":"no such page","code":-1}'))
        self.send_response(status)
        if isinstance(body, list):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in body:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def address_string(self):
        return "unix"

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving(shoal, answers):
    """Holds the lock as a server does and answers on the socket."""
    shoal("bucket", "create", "demo")
    folder = os.open(shoal.data, os.O_PATH)
    with open(os.path.join(shoal.data, "LOCK"), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The socket's own path may be longer than a socket address can hold.
        server = Server(f"/proc/self/fd/{folder}/admin.sock", answers)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            os.close(folder)


def dumps(value):
    return json.dumps(value).encode()


def test_info_comes_from_the_server_exactly(shoal):
    with serving(shoal, {"GET /info": (200, dumps(INFO))}) as server:
        assert shoal("info", "--json").json == INFO
        assert b"4,611,686,018,427,387,911" in shoal("info").out
        assert server.asked == ["GET /info"] * 2


def test_a_long_data_path(tmp_path):
    shoal = Shoal(tmp_path / ("d" * 200) / "data")
    os.makedirs(os.path.dirname(shoal.data))
    with serving(shoal, {"GET /info": (200, dumps(INFO))}):
        assert shoal("info", "--json").json == INFO


def test_buckets_through_the_server(shoal):
    done = (200, b"{}")
    rows = [{"name": "one", "public": True, "created_ms": 1_600_000_000_000},
            {"name": "two", "public": False, "created_ms": 0}]
    answers = {"GET /buckets": (200, dumps(rows)), "POST /buckets/new": (201, b""),
               "POST /buckets/new/public": done, "POST /buckets/one/private": (204, b""),
               "DELETE /buckets/two": (204, b""),
               "DELETE /buckets/one": (409, dumps({"error": "the bucket still holds objects",
                                                   "code": -4004}))}
    with serving(shoal, answers) as server:
        assert shoal("bucket", "list", "--json").json == [
            {"name": "one", "public": True, "created": "2020-09-13T12:26:40Z"},
            {"name": "two", "public": False, "created": "1970-01-01T00:00:00Z"}]
        shoal("bucket", "create", "new", "--public")
        shoal("bucket", "private", "one")
        shoal("bucket", "delete", "two")
        result = shoal("bucket", "delete", "one", status=1)
        assert "still holds objects" in result.error and result.err.count(b"\n") == 1
        assert server.asked == ["GET /buckets", "POST /buckets/new", "POST /buckets/new/public",
                                "POST /buckets/one/private", "DELETE /buckets/two",
                                "DELETE /buckets/one"]


def test_check_streams_the_servers_findings(shoal):
    findings = [{"file": "seg/1", "offset": i * 64, "text": "bad checksum", "key": f"demo\0k{i}"}
                for i in range(500)]
    lines = b"".join(dumps(f) + b"\n" for f in findings)
    report = dumps({"records": 9, "objects": 8, "bytes": 7, "damaged": 500})
    parts = [lines[:1000], lines[1000:1001], lines[1001:], report]
    answers = {"GET /info": (200, dumps(INFO)), "POST /check": (200, parts)}
    with serving(shoal, answers):
        result = shoal("check", "--json", status=3).json
        assert result["damaged"] == 500 and result["complete"] is True
        assert len(result["findings"]) == 500
        assert result["findings"][7]["offset"] == 7 * 64
        text = shoal("check", status=3).out.decode()
        assert "seg/1 offset 448: bad checksum: demo/k7\n" in text
        assert "9 records, 8 objects" in text.splitlines()[-1]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"x" * (20 << 20)],
                         ids=["empty", "cut", "not-utf8", "deep", "huge"])
def test_answers_that_are_not_json(shoal, body):
    with serving(shoal, {"GET /info": (200, body)}):
        result = shoal("info", status=1)
        assert result.err.count(b"\n") == 1 and "admin.sock" in result.error


def test_check_lines_without_end_are_refused(shoal):
    answers = {"GET /info": (200, dumps(INFO)), "POST /check": (200, [b"x" * 40_000] * 4)}
    with serving(shoal, answers):
        result = shoal("check", "--json", status=1)
        assert result.json["complete"] is False and "admin.sock" in result.error


def test_an_answer_that_breaks_off(shoal):
    answers = {"GET /info": (200, dumps(INFO)),
               "POST /check": (200, [b'{"file":"seg/1","offset":1,"text":"x"}\n{"file":'])}
    with serving(shoal, answers):
        result = shoal("check", "--json", status=1)
        assert result.json["complete"] is False and len(result.json["findings"]) == 1


def test_without_a_listening_server_the_holder_is_named(shoal):
    shoal("bucket", "create", "demo")
    with open(os.path.join(shoal.data, "LOCK"), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for args in (["info"], ["check"], ["bucket", "list"], ["ls"]):
            result = shoal(*args, status=1)
            assert str(os.getpid()) in result.error and result.err.count(b"\n") == 1


def test_other_commands_do_not_ask_the_server(shoal, tmp_path):
    with serving(shoal, {}) as server:
        for args in (["ls"], ["put", "-", "demo/x"], ["rm", "demo/x"], ["get", "demo/x", "-"],
                     ["import", "dir", tmp_path, "demo"], ["export", "demo", tmp_path / "o"]):
            assert str(os.getpid()) in shoal(*args, status=1).error
        assert server.asked == []


@contextlib.contextmanager
def real_server(shoal):
    process = shoal.start("serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: os.path.exists(os.path.join(shoal.data, "admin.sock")) or
                 process.poll() is not None, "admin socket")
        wait_for(lambda: process.poll() is not None or shoal("info", status=None).status == 0,
                 "answering server")
        yield process
    finally:
        status, _, err = stop(process)
    assert status == 0, err


def test_with_the_real_server(shoal, tmp_path):
    shoal("put", "-", "demo/x", stdin=b"x" * 1000)
    before = shoal("info", "--json").json
    with real_server(shoal) as process:
        during = shoal("info", "--json").json
        assert set(during) == set(before)
        assert (during["objects"], during["data_bytes"], during["buckets"]) == (1, 1000, 1)
        shoal("bucket", "create", "more", "--public")
        shoal("bucket", "public", "demo")
        rows = shoal("bucket", "list", "--json").json
        assert [(r["name"], r["public"]) for r in rows] == [("demo", True), ("more", True)]
        shoal("bucket", "private", "demo")
        shoal("bucket", "delete", "more")
        assert "exists already" in shoal("bucket", "create", "demo", status=1).error
        assert "still holds objects" in shoal("bucket", "delete", "demo", status=1).error
        assert "no such bucket" in shoal("bucket", "delete", "none", status=1).error
        result = shoal("check", "--json").json
        assert result["complete"] is True and result["damaged"] == 0 and result["objects"] == 1
        assert str(process.pid) in shoal("ls", status=1).error
    assert shoal("bucket", "list").out.split()[0] == b"private"
    assert shoal("get", "demo/x", "-").out == b"x" * 1000


def test_damage_is_found_here_and_by_the_server(shoal):
    shoal("put", "-", "demo/hurt", stdin=b"h" * 50_000)
    shoal("put", "-", "demo/well", stdin=b"w" * 50_000)
    flip_a_byte(shoal, b"h" * 1000)
    result = shoal("check", "--json", status=3).json
    assert result["damaged"] == 1 and result["complete"] is True
    assert any(f.get("key", "").endswith("hurt") for f in result["findings"])
    assert b"demo/hurt" in shoal("check", status=3).out
    assert "damaged" in shoal("get", "demo/hurt", "-", status=3).error
    assert shoal("get", "demo/well", "-").out == b"w" * 50_000
    with real_server(shoal):
        assert shoal("check", "--json", status=3).json["damaged"] == 1
        assert b"demo/hurt" in shoal("check", status=3).out


def flip_a_byte(shoal, pattern):
    folder = os.path.join(shoal.data, "seg")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path, "r+b") as file:
            at = file.read().find(pattern)
            if at >= 0:
                file.seek(at + 500)
                file.write(b"#")
                return
    raise AssertionError("the bytes are in no segment")
