"""kill -9 of `shoal import dir` at random moments, and the same command again until it is through: the
store is sound after each kill, what was copied is not copied again, and in the end the tree is there."""

import hashlib
import json
import os
import random
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHOAL = os.path.abspath(os.environ.get("SHOAL") or os.path.join(ROOT, "build", "shoal"))
TIMEOUT_S = 60
FILES = 4000
KILLS = 8


def content(number, size):
    block = hashlib.sha256(str(number).encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def make_tree(source, choice):
    """Returns key -> bytes."""
    tree = {}
    for number in range(FILES):
        size = choice.randrange(5 << 20, 7 << 20) if number % 400 == 7 else choice.randrange(8000)
        key = f"{number % 7}/{number % 31}/{number}.bin"
        path = os.path.join(source, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        tree[key] = content(number, size)
        with open(path, "wb") as file:
            file.write(tree[key])
    return tree


def shoal(data, *args):
    done = subprocess.run([SHOAL, *args, "--data", data], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
    assert done.returncode == 0, (args, done.returncode, done.stdout[-500:], done.stderr[-2000:])
    return done.stdout


def import_and_kill(data, source, seconds):
    """True if it was killed, False if it was through before."""
    process = subprocess.Popen([SHOAL, "import", "dir", source, "crash", "--data", data],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    status = process.wait(TIMEOUT_S)
    assert status in (0, -signal.SIGKILL)
    return status != 0


def verify(data, tree):
    """What is listed has the right bytes, and is counted. Returns the keys."""
    keys = shoal(data, "ls", "-0", "crash").decode().split("\0")[:-1]
    info = json.loads(shoal(data, "info", "--json"))
    assert info["objects"] == len(keys)
    assert info["data_bytes"] == sum(len(tree[key]) for key in keys)
    shoal(data, "check")
    return keys


def test_import_killed_and_continued(tmp_path):
    seed = int(os.environ.get("SHOAL_CRASH_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    source, data, back = (os.fspath(tmp_path / name) for name in ("source", "data", "back"))
    tree = make_tree(source, choice)
    shoal(data, "bucket", "create", "crash")
    started = time.monotonic()
    shoal(os.fspath(tmp_path / "whole"), "import", "dir", source, "crash")
    whole_s = time.monotonic() - started
    kills, stored = 0, 0
    for _ in range(KILLS):
        kills += import_and_kill(data, source, choice.random() * whole_s * 0.4)
        keys = verify(data, tree)
        assert len(keys) >= stored
        stored = len(keys)
    assert kills > 0
    result = json.loads(shoal(data, "import", "dir", source, "crash", "--json", "--verify"))
    assert (result["unchanged"], result["copied"]) == (stored, FILES - stored)
    assert (result["verified"], result["mismatched"], result["failed"]) == (FILES, 0, 0)
    assert len(verify(data, tree)) == FILES
    shoal(data, "export", "crash", back)
    subprocess.run(["diff", "-r", source, back], check=True, timeout=TIMEOUT_S)
