"""What the HTTP tests share: the real program on a folder and ports of its own, and a client on raw
sockets that shows exactly what came back."""

import contextlib
import ctypes
import itertools
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHOAL = os.path.abspath(os.environ.get("SHOAL") or os.path.join(ROOT, "build", "shoal"))
SANITIZED = "asan" in os.path.dirname(SHOAL)
TIMEOUT_S = 20


def has_io_uring():
    """Whether the kernel lets this process have one; where it does not, shoal uses epoll."""
    params = ctypes.create_string_buffer(120)
    fd = ctypes.CDLL(None).syscall(425, 1, params)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


LOOPS = ("uring", "epoll") if has_io_uring() else ("epoll",)


class Response:
    def __init__(self, status, fields, body, reason):
        self.status = status
        self.fields = fields  # (name, value) as sent
        self.body = body
        self.reason = reason

    def get(self, name, default=None):
        values = [v for n, v in self.fields if n.lower() == name.lower()]
        assert len(values) <= 1, (name, values)
        return values[0] if values else default

    @property
    def names(self):
        return [n.lower() for n, _ in self.fields]


class Closed(Exception):
    """The server closed the connection where a response was expected."""


class Connection:
    """A raw connection. Everything has a timeout."""

    def __init__(self, address):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self.socket = socket.socket(family)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(address)
        self.buffer = b""

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def finish_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def fill(self):
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return len(data)

    def until(self, mark):
        while mark not in self.buffer:
            if not self.fill():
                raise Closed(self.buffer)
        part, self.buffer = self.buffer.split(mark, 1)
        return part

    def exactly(self, count):
        while len(self.buffer) < count:
            if not self.fill():
                raise Closed(self.buffer[-200:])
        part, self.buffer = self.buffer[:count], self.buffer[count:]
        return part

    def rest(self):
        while self.fill():
            pass
        part, self.buffer = self.buffer, b""
        return part

    def chunks(self):
        body = b""
        while True:
            size = int(self.until(b"\r\n"), 16)
            if size == 0:
                assert self.until(b"\r\n") == b""
                return body
            body += self.exactly(size)
            assert self.exactly(2) == b"\r\n"

    def response(self, head=False):
        """head: the response to a HEAD."""
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) (.+)", lines[0])
        assert match, lines[0]
        fields = [tuple(line.split(": ", 1)) for line in lines[1:]]
        response = Response(int(match[1]), fields, b"", match[2])
        if head or response.status < 200 or response.status in (204, 304):
            return response
        if response.get("Transfer-Encoding") == "chunked":
            response.body = self.chunks()
        elif response.get("Content-Length") is not None:
            response.body = self.exactly(int(response.get("Content-Length")))
        else:
            response.body = self.rest()
        return response

    def is_closed(self):
        """Waits for the server's end of the connection; anything else is an error."""
        assert self.rest() == b""
        return True


class Server:
    def __init__(self, data, loop=LOOPS[0], workers=2, options=(), listens=("127.0.0.1:0",),
                 wrapper=()):
        self.data = os.fspath(data)
        self.errors = tempfile.TemporaryFile()
        argv = [*wrapper, SHOAL, "serve", "--data", self.data, "--admin", "127.0.0.1:0",
                "--workers", str(workers), *options]
        if loop:
            argv += ["--loop", loop]
        for listen in listens:
            argv += ["--listen", listen]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.lines = []
        for _ in range(len(listens) + 1):
            line = self.process.stdout.readline().decode()
            if not line:
                self.process.wait(TIMEOUT_S)
                raise AssertionError(f"the server did not start: {self.error_text()}")
            self.lines.append(line)
        ports = [re.search(r"http://(?:127\.0\.0\.1|\[::1\]):(\d+)/", line) for line in self.lines]
        self.ports = [int(m[1]) if m else None for m in ports]
        self.address = ("127.0.0.1", self.ports[0]) if self.ports[0] else None
        self.admin_address = ("127.0.0.1", self.ports[-1])
        with open(os.path.join(self.data, "access.token")) as token:
            self.token = token.read().strip()

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def stop(self, sig=signal.SIGTERM):
        """Ends it and returns the status."""
        self.process.send_signal(sig)
        return self.process.wait(TIMEOUT_S)

    def alive(self):
        return self.process.poll() is None

    @contextlib.contextmanager
    def connect(self, address=None):
        connection = Connection(address or self.address)
        try:
            yield connection
        finally:
            connection.close()

    def auth(self):
        return ("Authorization", "Bearer " + self.token)

    def request(self, method, target, fields=(), body=None, address=None, auth=False):
        """One request on a connection of its own."""
        with self.connect(address) as c:
            c.send(make_request(method, target, [*fields, *([self.auth()] if auth else [])], body))
            return c.response(head=method == "HEAD")

    def put(self, target, body, fields=()):
        response = self.request("PUT", target, fields, body, auth=True)
        assert response.status == 200, (response.status, response.body)
        return response

    def get(self, target, fields=()):
        return self.request("GET", target, fields)

    def admin(self, method, path):
        """On the unix socket; its path may be longer than a socket's may be."""
        directory = os.open(self.data, os.O_PATH)
        try:
            return self.request(method, path, address=f"/proc/self/fd/{directory}/admin.sock")
        finally:
            os.close(directory)

    def bucket(self, name, public=False):
        assert self.admin("POST", "/buckets/" + name).status == 201
        if public:
            assert self.admin("POST", f"/buckets/{name}/public").status == 200

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024


def make_request(method, target, fields=(), body=None):
    lines = [f"{method} {target} HTTP/1.1", "Host: test"]
    lines += [f"{name}: {value}" for name, value in fields]
    if body is not None and not any(n.lower() == "transfer-encoding" for n, _ in fields):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


@contextlib.contextmanager
def running(data, **kwargs):
    server = Server(data, **kwargs)
    try:
        yield server
        if server.process.returncode is None:  # the test did not end it itself
            assert server.alive(), server.error_text()
            assert server.stop() == 0, server.error_text()
        assert "ERROR: " not in server.error_text(), server.error_text()
    finally:
        if server.alive():
            server.process.kill()
            server.process.wait()
        server.process.stdout.close()
        server.errors.close()


@pytest.fixture(scope="module", params=LOOPS)
def server(request, tmp_path_factory):
    """One server for a module's tests, which use keys of their own: buckets pub and priv."""
    with running(tmp_path_factory.mktemp("http") / "data", loop=request.param) as one:
        one.bucket("pub", public=True)
        one.bucket("priv")
        yield one


counter = itertools.count()


@pytest.fixture
def key():
    """A key that no other test uses."""
    return f"k{next(counter)}"


def wait_until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)
