"""kill -9 with the real program: clients put, replace and delete over HTTP, the server is killed at a
random moment, again and again. After each restart every acknowledged object is there with the right
bytes, deleted ones are gone, what was under way is either old or new, and check finds nothing.

A failing run prints its seed; SHOAL_CRASH_SEED repeats the clients' choices (not the timing).
SHOAL_CRASH_ROUNDS makes lives longer."""

import hashlib
import http.client
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHOAL = os.path.abspath(os.environ.get("SHOAL") or os.path.join(ROOT, "build", "shoal"))
ROUNDS = int(os.environ.get("SHOAL_CRASH_ROUNDS", "6"))
CLIENTS = 6
KEYS = 40  # of each client
TIMEOUT_S = 60


def content(number, size):
    """The bytes of one put, from its number alone."""
    block = hashlib.sha256(str(number).encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def any_size(choice):
    kind = choice.random()
    if kind < 0.70:
        return choice.randrange(0, 3000)
    if kind < 0.97:
        return choice.randrange(3000, 200_000)
    return choice.randrange(4 << 20, 10 << 20)  # stored in chunks


class Server:
    def __init__(self, data, options):
        argv = [SHOAL, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                "--workers", "2", *options]
        self.errors = open(data + ".errors", "ab")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        line = self.process.stdout.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        if not found:
            self.process.wait(TIMEOUT_S)
            with open(data + ".errors", encoding="utf-8", errors="replace") as text:
                raise AssertionError(f"the server did not start: {line}{text.read()[-2000:]}")
        self.port = int(found[1])
        with open(os.path.join(data, "access.token"), encoding="ascii") as token:
            self.token = token.read().strip()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def end(self, sig):
        self.process.send_signal(sig)
        status = self.process.wait(TIMEOUT_S)
        self.process.stdout.close()
        self.errors.close()
        return status


class Client:
    """One thread's keys: what is acknowledged, and the one write that may be under way. A version is
    (number, size), or None for absent."""

    def __init__(self, name, choice):
        self.name = name
        self.choice = choice
        self.known = {}
        self.pending = None  # (key, version)
        self.numbers = 0
        self.acknowledged = 0
        self.wrong = None

    def key(self):
        # Some share a prefix, some are each other's prefix.
        return f"{self.name}/{self.choice.choice(['', 'a/', 'a/b/'])}{self.choice.randrange(KEYS)}"

    def one(self, connection, token):
        key = self.key()
        fields = {"Authorization": "Bearer " + token}
        if self.choice.random() < 0.2:
            self.pending = (key, None)
            connection.request("DELETE", "/crash/" + key, headers=fields)
            expected = (204, 404) if self.known.get(key) is None else (204,)
        else:
            self.numbers += 1
            version = (f"{self.name}-{self.numbers}", any_size(self.choice))
            self.pending = (key, version)
            connection.request("PUT", "/crash/" + key, body=content(*version), headers=fields)
            expected = (200,)
        response = connection.getresponse()
        body = response.read()
        if response.status not in expected:
            self.wrong = f"{self.pending}: {response.status} {body[:200]}"
            return
        self.known[key] = self.pending[1]
        self.pending = None
        self.acknowledged += 1

    def run(self, server):
        connection = server.connect()
        try:
            while self.wrong is None:
                self.one(connection, server.token)
        except (OSError, http.client.HTTPException):
            pass  # the server was killed: what was asked last is unknown
        finally:
            connection.close()

    def settle(self, connection, token):
        """Reads all keys; what was under way becomes what it turned out to be."""
        maybe = dict([self.pending]) if self.pending else {}
        self.pending = None
        for key in sorted({*self.known, *maybe}):
            allowed = [self.known.get(key)] + ([maybe[key]] if key in maybe else [])
            self.known[key] = read(connection, token, key, allowed)


def read(connection, token, key, allowed):
    connection.request("GET", "/crash/" + key, headers={"Authorization": "Bearer " + token})
    response = connection.getresponse()
    body = response.read()
    if response.status == 404:
        assert None in allowed, f"{key} is gone; it was {allowed}"
        return None
    assert response.status == 200, (key, response.status, body[:200])
    for version in allowed:
        if version is not None and body == content(*version):
            assert response.headers["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', key
            return version
    raise AssertionError(f"{key}: {len(body)} bytes that are none of {allowed}")


def shoal(data, *args):
    done = subprocess.run([SHOAL, *args, "--data", data], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
    assert done.returncode == 0, (args, done.returncode, done.stdout[-500:], done.stderr[-2000:])
    return done.stdout


def live_and_kill(data, options, clients, seconds):
    server = Server(data, options)
    threads = [threading.Thread(target=client.run, args=(server,)) for client in clients]
    try:
        for thread in threads:
            thread.start()
        time.sleep(seconds)
    finally:
        server.end(signal.SIGKILL)
        for thread in threads:
            thread.join(TIMEOUT_S)
    for client in clients:
        assert client.wrong is None, client.wrong


def settle(data, options, clients):
    server = Server(data, options)
    try:
        connection = server.connect()
        for client in clients:
            client.settle(connection, server.token)
        connection.close()
    except BaseException:
        server.end(signal.SIGKILL)
        raise
    assert server.end(signal.SIGTERM) == 0


def expected_keys(clients):
    return sorted(key.encode() for client in clients
                  for key, version in client.known.items() if version is not None)


LIVES = {
    "sync": [],
    "epoll": ["--loop", "epoll"],
    "relaxed": ["--durability", "relaxed:20"],  # a killed process loses nothing: the kernel has it
    "one-worker": ["--workers", "1"],
}


@pytest.mark.parametrize("life", LIVES)
def test_nothing_acknowledged_is_lost(life, tmp_path):
    seed = int(os.environ.get("SHOAL_CRASH_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    data = os.fspath(tmp_path / "data")
    clients = [Client(f"c{i}", random.Random(choice.random())) for i in range(CLIENTS)]
    shoal(data, "bucket", "create", "crash")
    for number in range(ROUNDS):
        live_and_kill(data, LIVES[life], clients, 0.05 + choice.random() * 0.9)
        # Sometimes check is the first to open what the crash left, sometimes the server is.
        if number % 2:
            shoal(data, "check")
        settle(data, LIVES[life], clients)
        shoal(data, "check")
        assert sorted(shoal(data, "ls", "-0", "crash").split(b"\0")[:-1]) == expected_keys(clients)
    assert sum(client.acknowledged for client in clients) > 20 * ROUNDS


def test_killed_while_starting(tmp_path):
    """Killed during recovery, many times, before it serves; then it still has everything."""
    data = os.fspath(tmp_path / "data")
    choice = random.Random()
    clients = [Client(f"c{i}", random.Random()) for i in range(CLIENTS)]
    shoal(data, "bucket", "create", "crash")
    live_and_kill(data, [], clients, 0.5)
    for _ in range(10):
        process = subprocess.Popen([SHOAL, "serve", "--data", data, "--listen", "127.0.0.1:0",
                                    "--admin", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(choice.random() * 0.04)
        process.kill()
        process.wait(TIMEOUT_S)
    settle(data, [], clients)
    shoal(data, "check")
