"""What the benchmarks share: folders, processes, CPU time, rounds and the result's form."""

import contextlib
import json
import os
import platform
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
SHOAL = os.path.join(BUILD, "shoal")
QUICK_SECONDS = 50  # a quick run ends within this time
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A benchmark that can't give a figure; the text says why and what to do."""


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- where it runs ---


def need_program(path, hint):
    found = shutil.which(path)
    if found is None:
        raise Failed(f"{path} is not there: {hint}")
    return found


@contextlib.contextmanager
def work_folder(name):
    """A folder on the repository's file system, removed at the end whatever happens."""
    os.makedirs(os.path.join(BUILD, "bench"), exist_ok=True)
    path = tempfile.mkdtemp(prefix=name + "-", dir=os.path.join(BUILD, "bench"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def settle(folder):
    """Waits until the file system has nothing left to write, so that no run pays for another."""
    subprocess.run(["sync", "-f", folder], check=True)


def filesystem_of(folder):
    """Its name as mounted: statfs can't tell ext4 from ext2."""
    out = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", folder], stdout=subprocess.PIPE,
                         text=True, check=True).stdout
    return out.split()[0]


def machine(folder):
    """What a reader needs to judge a figure."""
    model = platform.machine()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "ram_gib": round(pages * page_bytes / 2**30, 1),
        "kernel": platform.release(),
        "filesystem": filesystem_of(folder),
        "load_before": round(os.getloadavg()[0], 2),
    }


# --- processes ---


def run(argv, timeout_s=900, env=None, **options):
    """Runs to the end; returns (seconds, standard output). Its failure is the benchmark's."""
    started = time.monotonic()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout_s, env=env, **options)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise Failed(f"{' '.join(argv)}: status {done.returncode}: {' / '.join(tail)}")
    return seconds, done.stdout


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(cpu, argv):
    """On one core there is nothing to divide."""
    if (os.cpu_count() or 1) < 2:
        return argv
    return ["taskset", "-c", str(cpu)] + argv


@contextlib.contextmanager
def server(argv, port, log_path):
    """A server from its start until it has ended; yields its pid."""
    with open(log_path, "wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        await_port(process, port, log_path)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_port(process, port, log_path):
    for _ in range(200):
        if process.poll() is not None:
            with open(log_path, errors="replace") as log:
                raise Failed(f"a server ended at once: {log.read().strip()[-500:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Failed("a server did not answer within 10 s")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as listed:
        return [int(child) for child in listed.read().split()]


def cpu_seconds(pid):
    """User and system time of a process with all its threads, and of its children."""
    total = 0
    for each in [pid] + children_of(pid):
        with open(f"/proc/{each}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def children_cpu_seconds():
    """Of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- rounds and results ---


class Clock:
    """Says whether another round fits: a quick run must end in time."""

    def __init__(self, quick):
        self.started = time.monotonic()
        self.quick = quick

    def elapsed(self):
        return time.monotonic() - self.started

    def fits(self, seconds):
        return not self.quick or self.elapsed() + seconds < QUICK_SECONDS - 4


def median(values):
    return statistics.median(values)


def rounded(value):
    """Four significant digits: more would pretend to know what a run can't tell."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value


def result(name, unit, shoal, peers, ratio, target, figures, settings):
    return rounded({
        "name": name, "unit": unit, "shoal": float(shoal), "peers": peers, "ratio": float(ratio),
        "target": target, "met": ratio >= target, "figures": figures, "settings": settings,
    })
