"""What the tests of the command line share: the real binary, and a folder of their own each."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHOAL = os.path.abspath(os.environ.get("SHOAL") or os.path.join(ROOT, "build", "shoal"))
TIMEOUT_S = 60


class Result:
    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    @property
    def json(self):
        assert self.out.count(b"\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self):
        return self.err.decode("utf-8", "replace")


class Shoal:
    """The program with a data directory. Calls give status, output and errors; they fail when the
    status is not the expected one."""

    def __init__(self, data):
        self.data = os.fspath(data)

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SHOAL")}
        env["SHOAL_DATA"] = self.data
        return env

    def __call__(self, *args, status=0, stdin=b"", data=None, **kwargs):
        env = self.environment()
        if data is not None:
            env["SHOAL_DATA"] = os.fspath(data)
        done = subprocess.run([SHOAL, *args], input=stdin, env=env, timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)
        if status is not None:
            assert done.returncode == status, (args, done.returncode, done.stdout[-500:],
                                               done.stderr[-2000:])
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([SHOAL, *args], env=self.environment(), **kwargs)

    def keys(self, where):
        """Keys as bytes."""
        return self("ls", "-0", where).out.split(b"\0")[:-1]


@pytest.fixture
def shoal(tmp_path):
    return Shoal(tmp_path / "data")


@pytest.fixture
def tree(tmp_path):
    """A small tree with what trees have in them."""
    top = tmp_path / "tree"
    make_tree(top)
    return top


def make_tree(top):
    os.makedirs(top / "a" / "b")
    os.makedirs(top / "empty")
    write(top / "a" / "one.txt", b"one\n", 1_600_000_000_123_456_789)
    write(top / "a" / "b" / "two.jpg", b"\xff\xd8\xff" + os.urandom(40_000),
          1_500_000_000_000_000_001)
    write(top / "nothing", b"", 1_400_000_000_999_999_999)
    write(top / "large.bin", os.urandom(4 * 1024 * 1024 + 77))
    write(os.fsencode(top) + b"/not-utf8-\xff\xfe\n.png", b"\x89PNG\r\n\x1a\n rest")


def write(path, data, mtime_ns=None):
    with open(path, "wb") as file:
        file.write(data)
    if mtime_ns is not None:
        os.utime(path, ns=(mtime_ns, mtime_ns))


def files_of(top):
    """Relative path as bytes -> (contents, mtime in ns), regular files only."""
    found = {}
    top = os.fsencode(top)
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, top)] = (file.read(), os.stat(path).st_mtime_ns)
    return found


def wait_for(condition, what, timeout_s=20):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {timeout_s} s")


def stop(process, sig=signal.SIGTERM, timeout_s=20):
    """Ends a process that a test started; returns (status, stdout, stderr)."""
    if process.poll() is None:
        process.send_signal(sig)
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end: {err[-500:]}") from None
    return process.returncode, out, err


@contextlib.contextmanager
def fast_folder(need_bytes):
    """A folder for a tree of many files: in memory where there is room, since making them on a disk
    takes most of a test's time."""
    parent = None
    if os.access("/dev/shm", os.W_OK):
        room = os.statvfs("/dev/shm")
        if room.f_bavail * room.f_frsize > 2 * need_bytes:
            parent = "/dev/shm"
    folder = tempfile.mkdtemp(prefix="shoal-test-", dir=parent)
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


@contextlib.contextmanager
def small_disk(size_bytes, parent):
    """A file system of this size; needs a mount, as root or in a user namespace of its own."""
    point = tempfile.mkdtemp(dir=parent, prefix="disk-")
    options = f"size={size_bytes},mode=0777"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "shoal-test", point],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        pytest.fail(f"this test mounts a small tmpfs: run it as root ({done.stdout.decode()})")
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)
        os.rmdir(point)


@contextlib.contextmanager
def read_only(folder):
    """Makes a folder unwritable, also for root."""
    if os.geteuid() != 0:
        modes = [(path, os.stat(path).st_mode) for path, _, _ in os.walk(folder)]
        for path, _ in modes:
            os.chmod(path, 0o555)
        try:
            yield
        finally:
            for path, mode in modes:
                os.chmod(path, mode)
        return
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def peak_rss_bytes(process):
    """The most memory a running process has had, as the kernel says."""
    try:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


@pytest.fixture(autouse=True)
def tidy(tmp_path):
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)
