"""The server as a process: large objects in constant memory, clients that leave, several addresses,
signals, monitoring, the admin socket."""

import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import LOOPS, SANITIZED, SHOAL, Closed, make_request, running, wait_until

PIECE = hashlib.sha512(b"seed").digest() * 4096  # 256 KiB
MIB = 1 << 20


def send_large(server, c, target, mib, fields, wrap=lambda piece: piece):
    c.send(make_request("PUT", target, [server.auth(), *fields]))
    for _ in range(mib * 4):
        c.send(wrap(PIECE))


def check_download(c, mib, start=0):
    digest = hashlib.md5()
    head = c.until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    left = mib * MIB
    while left:
        if not c.buffer:
            assert c.fill(), "closed too early"
        digest.update(c.buffer)
        left -= len(c.buffer)
        c.buffer = b""
    return digest.hexdigest()


def test_large_objects_in_constant_memory(server):
    mib = 64 if SANITIZED else 300
    wanted = hashlib.md5(PIECE * 4 * mib).hexdigest()
    server.put("/pub/warm", PIECE * 20)
    server.get("/pub/warm")
    before = server.rss_bytes()
    with server.connect() as c:
        send_large(server, c, "/pub/large", mib, [("Content-Length", str(mib * MIB))])
        assert c.response().get("ETag") == f'"{wanted}"'
    with server.connect() as c:
        send_large(server, c, "/pub/larger", mib, [("Transfer-Encoding", "chunked")],
                   lambda piece: b"%x\r\n%b\r\n" % (len(piece), piece))
        c.send(b"0\r\n\r\n")
        assert c.response().get("ETag") == f'"{wanted}"'
    for target in ("/pub/large", "/pub/larger"):
        with server.connect() as c:
            c.send(make_request("GET", target))
            assert check_download(c, mib) == wanted
    grown = server.rss_bytes() - before
    # The address sanitizer keeps freed memory for a while: 256 MiB.
    assert grown < (450 if SANITIZED else 100) * MIB, grown
    part = server.get("/pub/large", [("Range", f"bytes={5 * MIB - 3}-{5 * MIB + 2}")])
    assert part.body == (PIECE * 2)[len(PIECE) - 3:len(PIECE) + 3]
    for target in ("/pub/large", "/pub/larger"):
        assert server.request("DELETE", target, auth=True).status == 204


def test_large_uploads_at_once(server):
    errors = []

    def upload(i):
        try:
            with server.connect() as c:
                send_large(server, c, f"/pub/at-once{i}", 9,
                           [("Content-Length", str(9 * MIB))])
                assert c.response().status == 200
        except (AssertionError, OSError) as error:
            errors.append(error)

    threads = [threading.Thread(target=upload, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for i in range(12):
        got = server.request("HEAD", f"/pub/at-once{i}")
        assert got.get("Content-Length") == str(9 * MIB)


@pytest.mark.parametrize("length, sent", [(100, 50), (1 * MIB, 700000), (20 * MIB, 9 * MIB)])
@pytest.mark.parametrize("reset", [False, True])
def test_client_leaves_during_put(server, key, length, sent, reset):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}",
                            [server.auth(), ("Content-Length", str(length))]))
        c.send(b"x" * sent)
        if reset:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    time.sleep(0.1)
    assert server.get(f"/pub/{key}").status == 404
    assert server.alive()


def test_client_leaves_during_chunked_put(server, key):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}",
                            [server.auth(), ("Transfer-Encoding", "chunked")]))
        c.send(b"5\r\nhello\r\n")
    time.sleep(0.1)
    assert server.get(f"/pub/{key}").status == 404


def test_client_leaves_during_get(server):
    server.put("/pub/left", PIECE * 40)
    for _ in range(20):
        with server.connect() as c:
            c.send(make_request("GET", "/pub/left") * 3)
            c.exactly(1000)
    assert server.get("/pub/left").body == PIECE * 40


def test_slow_reader(server):
    """A client that reads little by little gets all, and holds up nobody."""
    body = PIECE * 32
    server.put("/pub/slow", body)
    with server.connect() as c:
        c.send(make_request("GET", "/pub/slow"))
        c.until(b"\r\n\r\n")
        got = b""
        for _ in range(20):
            got += c.exactly(1000)
            assert server.get("/pub/slow", [("Range", "bytes=0-9")]).body == body[:10]
        assert got + c.exactly(len(body) - len(got)) == body


def test_concurrent_clients(server):
    """Writers and readers on the same keys: every read is one of the versions written."""
    versions = {bytes([v]) * (1000 + 20000 * v) for v in range(1, 6)}
    stop = time.monotonic() + (2 if SANITIZED else 1.5)
    errors = []
    server.put("/pub/shared", bytes([1]) * 21000)

    def write():
        try:
            with server.connect() as c:
                while time.monotonic() < stop:
                    for body in versions:
                        c.send(make_request("PUT", "/pub/shared", [server.auth()], body))
                        assert c.response().status == 200
        except (AssertionError, OSError, Closed) as error:
            errors.append(repr(error))

    def read():
        try:
            with server.connect() as c:
                while time.monotonic() < stop:
                    c.send(make_request("GET", "/pub/shared") * 5)
                    for _ in range(5):
                        assert c.response().body in versions
        except (AssertionError, OSError, Closed) as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=f) for f in (write, write, read, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def forget_cached(server):
    """Drops the segments from the page cache, so that reads have to wait for the device."""
    folder = os.path.join(server.data, "seg")
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_cold_reads(server):
    bodies = {f"/pub/cold{size}": (PIECE * 21)[:size] for size in (1, 900, 70000, 300000, 5 * MIB)}
    for target, body in bodies.items():
        server.put(target, body)
    for _ in range(5):
        forget_cached(server)
        with server.connect() as left:  # gone before its read is back
            left.send(b"".join(make_request("GET", target) for target in bodies))
        with server.connect() as c:
            c.send(b"".join(make_request("GET", target) for target in bodies))
            for body in bodies.values():
                assert c.response().body == body


def memory_in_use(server):
    metrics = server.request("GET", "/metrics", address=server.admin_address).body.decode()
    return int(re.search(r"^shoal_request_memory_bytes (\d+)", metrics, re.M)[1])


def test_uploads_wait_for_memory(server):
    """64 announced bodies of 4 MiB take all there is; the next waits until one has gone."""
    wait_until(lambda: memory_in_use(server) == 0, "memory of earlier tests was not given back")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(64)]
        for i, c in enumerate(held):
            c.send(make_request("PUT", f"/pub/held{i}",
                                [server.auth(), ("Content-Length", str(4 * MIB))]) + b"x")
        wait_until(lambda: memory_in_use(server) == 256 * MIB, "not all was reserved")
        waiting = stack.enter_context(server.connect())
        waiting.send(make_request("PUT", "/pub/waiting", [server.auth()], b"waited"))
        waiting.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.response()
        waiting.socket.settimeout(20)
        assert server.get("/pub/waiting").status == 404
        held[0].close()
        assert waiting.response().status == 200
    assert server.get("/pub/waiting").body == b"waited"
    wait_until(lambda: memory_in_use(server) == 0, "memory was not given back")


@pytest.mark.parametrize("loop", LOOPS)
def test_readers_wait_for_buffers(tmp_path, loop):
    """Clients that do not read hold a buffer each, up to a limit; the next waits for one."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    path = str(tmp_path / "s.sock")
    with running(tmp_path / "data", loop=loop, workers=1, listens=("unix:" + path,)) as server:
        server.bucket("pub", public=True)
        assert server.request("PUT", "/pub/large", body=PIECE * 5, auth=True,
                              address=path).status == 200
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(server.connect(path)) for _ in range(1024)]
            for c in held:
                c.send(make_request("GET", "/pub/large"))
            for c in held:
                c.until(b"\r\n\r\n")
            waiting = [stack.enter_context(server.connect(path)) for _ in range(3)]
            for c in waiting:
                c.send(make_request("GET", "/pub/large"))
            waiting[0].socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                waiting[0].response()
            waiting[0].close()  # gone while it waits
            for c in held[:2]:
                c.close()
            for c in waiting[1:]:
                assert c.response().body == PIECE * 5
            for c in held[2:100]:
                assert c.exactly(len(PIECE) * 5) == PIECE * 5


# --- monitoring and the admin socket ---

def test_admin_listener(server):
    for path, body in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
        got = server.request("GET", path, address=server.admin_address)
        assert (got.status, got.body) == (200, body)
    metrics = server.request("GET", "/metrics", address=server.admin_address)
    assert metrics.status == 200
    assert metrics.get("Content-Type").startswith("text/plain; version=0.0.4")
    values = {}
    for line in metrics.body.decode().splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = int(value)
    assert values['shoal_http_requests_total{method="GET",status="2xx"}'] > 0
    assert values["shoal_http_sent_bytes_total"] > 0
    assert values["shoal_http_connections"] >= 1
    assert values["shoal_buckets"] >= 2
    for method in ("POST", "PUT", "DELETE"):
        got = server.request(method, "/metrics", address=server.admin_address)
        assert got.status == 405
    assert server.request("GET", "/pub/x", address=server.admin_address).status == 404


def test_admin_socket_info(server):
    info = json.loads(server.admin("GET", "/info").body)
    for name in ("objects", "data_bytes", "live_bytes", "segment_bytes", "disk_bytes",
                 "index_ram_bytes", "sequence", "catalogue_sequence", "segments", "buckets",
                 "reaping_bytes"):
        assert isinstance(info[name], int), name


def test_admin_socket_buckets(server):
    assert server.admin("POST", "/buckets/made").status == 201
    again = server.admin("POST", "/buckets/made")
    assert again.status == 409
    error = json.loads(again.body)
    assert error["error"] and error["code"] < 0
    assert server.admin("POST", "/buckets/made/public").status == 200
    listed = json.loads(server.admin("GET", "/buckets").body)
    made = [b for b in listed if b["name"] == "made"]
    assert made and made[0]["public"] is True and made[0]["created_ms"] > 0
    server.put("/made/x", b"x")
    assert server.admin("DELETE", "/buckets/made").status == 409
    assert server.request("DELETE", "/made/x", auth=True).status == 204
    assert server.admin("DELETE", "/buckets/made").status == 200
    assert server.admin("DELETE", "/buckets/made").status == 404
    assert server.admin("POST", "/buckets/NOT-LEGAL").status == 400
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/buckets/made", 405),
                                 ("POST", "/buckets/made/other", 405), ("POST", "/buckets/", 404),
                                 ("POST", "/buckets/made/", 405)):
        got = server.admin(method, path)
        assert got.status == status, path
        assert json.loads(got.body)["error"]


def test_admin_socket_check(server):
    server.put("/pub/checked", b"x" * 1000)
    got = server.admin("POST", "/check")
    assert got.status == 200
    report = json.loads(got.body.decode().splitlines()[-1])
    assert report["damaged"] == 0
    assert report["objects"] >= 1 and report["records"] >= 1 and report["bytes"] >= 1000
    json.loads(server.admin("POST", "/check").body.decode().splitlines()[-1])


def test_command_line_asks_the_server(server):
    done = subprocess.run([SHOAL, "info", "--json", "--data", server.data], timeout=20,
                          stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["buckets"] >= 2


# --- damage ---

@pytest.mark.parametrize("loop", LOOPS)
def test_damage_is_named(tmp_path, loop):
    data = tmp_path / "data"
    with running(data, loop=loop) as server:
        server.bucket("pub", public=True)
        server.put("/pub/whole", b"w" * 3000)
        server.put("/pub/small", b"needle-in-small" * 100)
        server.put("/pub/first", b"needle-in-first" * 20000)
        server.put("/pub/late", b"a" * 250000 + b"needle-in-late")
    for name in os.listdir(data / "seg"):
        with open(data / "seg" / name, "r+b") as segment:
            content = segment.read()
            for needle in (b"needle-in-small", b"needle-in-first", b"needle-in-late"):
                at = content.find(needle)
                if at >= 0:
                    segment.seek(at)
                    segment.write(b"N")
    with running(data, loop=loop) as server:
        assert server.get("/pub/whole").body == b"w" * 3000
        for name in ("small", "first"):
            got = server.get(f"/pub/{name}")
            assert got.status == 500
            assert f"pub/{name}".encode() in got.body
        assert server.request("HEAD", "/pub/late").status == 200
        part = server.get("/pub/late", [("Range", "bytes=0-9")])
        assert (part.status, part.body) == (206, b"a" * 10)
        with server.connect() as c, pytest.raises((Closed, ConnectionError)):
            c.send(make_request("GET", "/pub/late"))
            c.response()
        assert "pub/small" in server.error_text() or "pub/first" in server.error_text()
        assert server.get("/pub/whole").status == 200


# --- the process ---

@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stops_cleanly(tmp_path, loop, sig):
    data = tmp_path / "data"
    with running(data, loop=loop, workers=3) as server:
        server.bucket("pub", public=True)
        server.put("/pub/x", b"kept")
        with server.connect() as idle, server.connect() as half:
            idle.send(make_request("GET", "/pub/x"))
            assert idle.response().status == 200
            half.send(b"GET /pub/x HT")
            began = time.monotonic()
            server.process.send_signal(sig)
            assert idle.is_closed()
            assert server.process.wait(20) == 0
            assert time.monotonic() - began < 3
        assert server.error_text() == ""
        assert not os.path.exists(data / "admin.sock")
    with running(data, loop=loop) as server:
        assert server.get("/pub/x").body == b"kept"


@pytest.mark.parametrize("loop", LOOPS)
def test_running_request_ends_before_the_stop(tmp_path, loop):
    with running(tmp_path / "data", loop=loop) as server:
        server.bucket("pub", public=True)
        with server.connect() as c:
            c.send(make_request("PUT", "/pub/x", [server.auth(), ("Content-Length", "10")]))
            c.send(b"12345")
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            c.send(b"67890")
            got = c.response()
            assert (got.status, got.get("Connection")) == (200, "close")
            assert server.process.wait(20) == 0
    with running(tmp_path / "data", loop=loop) as server:
        assert server.get("/pub/x").body == b"1234567890"


def test_several_addresses(tmp_path):
    path = str(tmp_path / "s.sock")
    with running(tmp_path / "data", listens=("127.0.0.1:0", "unix:" + path, "[::1]:0")) as server:
        server.bucket("pub", public=True)
        server.put("/pub/x", b"everywhere")
        assert server.get("/pub/x").body == b"everywhere"
        for address in (path, ("::1", server.ports[2])):
            assert server.request("GET", "/pub/x", address=address).body == b"everywhere"
        kind = {"uring": "io_uring"}.get(LOOPS[0], LOOPS[0])
        assert f"serving unix:{path} (2 workers, {kind})" in "".join(server.lines)
    assert not os.path.exists(path)


def serve(*options, wrapper=()):
    done = subprocess.run([*wrapper, SHOAL, "serve", *map(str, options)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=20)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


def test_refused_starts(tmp_path):
    data = tmp_path / "data"
    with running(data) as server:
        port = server.ports[0]
        status, error = serve("--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        assert status == 1 and str(server.process.pid) in error
        status, error = serve("--data", tmp_path / "other", "--listen", f"127.0.0.1:{port}",
                              "--admin", "127.0.0.1:0")
        assert status == 1 and f"127.0.0.1:{port}" in error
        assert server.get("/").status == 200
    for wrong in (["--loop", "select"], ["--durability", "maybe"], ["--durability", "relaxed:0"],
                  ["--workers", "x"], ["operand"], ["--nonsense"]):
        assert serve("--data", data, *wrong)[0] == 2, wrong
    for address in ("nonsense", "127.0.0.1", "127.0.0.1:99999", "::1:80", "unix:", "unix:" +
                    "x" * 200):
        assert serve("--data", data, "--listen", address)[0] == 1, address
    (tmp_path / "file").write_text("x")
    status, error = serve("--data", tmp_path / "file")
    assert status == 1 and error.count("\n") == 1


def test_stale_socket_is_replaced(tmp_path):
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    with running(tmp_path / "data", listens=("unix:" + path,)) as server:
        assert server.request("GET", "/", address=path).status == 200
        status, error = serve("--data", tmp_path / "other", "--listen", "unix:" + path,
                              "--admin", "127.0.0.1:0")
        assert status == 1 and path in error


def test_relaxed_durability(tmp_path):
    with running(tmp_path / "data", options=("--durability", "relaxed:50")) as server:
        server.bucket("pub", public=True)
        server.put("/pub/x", b"relaxed")
        assert server.get("/pub/x").body == b"relaxed"


@pytest.mark.parametrize("loop", LOOPS)
def test_kill_and_restart(tmp_path, loop):
    data = tmp_path / "data"
    with running(data, loop=loop) as server:
        server.bucket("pub", public=True)
        for i in range(50):
            server.put(f"/pub/{i}", b"x" * i)
        server.process.kill()
        server.process.wait(20)
    with running(data, loop=loop) as server:
        for i in range(50):
            assert server.get(f"/pub/{i}").body == b"x" * i


@pytest.mark.parametrize("loop", LOOPS)
def test_connection_limit(tmp_path, loop):
    """Where descriptors are few, idle connections give way to new ones."""
    few = ("sh", "-c", 'ulimit -n 200; exec "$@"', "sh")
    with running(tmp_path / "data", loop=loop, workers=1, wrapper=few) as server:
        server.bucket("pub", public=True)
        server.put("/pub/x", b"x")
        with contextlib.ExitStack() as stack:
            for _ in range(400):
                c = stack.enter_context(server.connect())
                c.send(make_request("GET", "/pub/x"))
                assert c.response().body == b"x"


@pytest.mark.parametrize("loop", LOOPS)
def test_slow_head_is_told(tmp_path, loop):
    """A head that never ends is answered with 408 after ten seconds, a new connection meanwhile at
    once."""
    with running(tmp_path / "data", loop=loop) as server:
        with server.connect() as c:
            c.send(b"GET / HTTP/1.1\r\nHost: te")
            began = time.monotonic()
            assert server.get("/").status == 200
            got = c.response()
            assert got.status == 408
            assert 9 < time.monotonic() - began < 13
            assert c.is_closed()


WITHOUT_IO_URING = (sys.executable, os.path.join(os.path.dirname(__file__), "without_io_uring.py"))


def test_epoll_where_io_uring_is_refused(tmp_path):
    with running(tmp_path / "data", loop=None, workers=3, wrapper=WITHOUT_IO_URING) as server:
        assert "(3 workers, epoll)" in server.lines[0]
        assert server.error_text().count("io_uring") == 1
        server.bucket("pub", public=True)
        server.put("/pub/x", b"x")
        assert server.get("/pub/x").body == b"x"
    status, error = serve("--data", tmp_path / "data", "--loop", "uring", "--listen",
                          "127.0.0.1:0", "--admin", "127.0.0.1:0", wrapper=WITHOUT_IO_URING)
    assert status == 1 and "--loop epoll" in error
