#!/usr/bin/env python3
"""Imports 5 million files that lie in one directory, and measures memory: part of `make soak`.

    test/cli/soak_flat.py [FILES [FOLDER]]

FOLDER (default: the system's temporary folder) must have room and inodes for the files and the store.
SHOAL names the program. The last line is `N passed, N failed`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from conftest import SHOAL, peak_rss_bytes

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None
LIMIT_BYTES = 256 << 20


def run(*args):
    """Returns (status, JSON, peak of resident memory, seconds)."""
    start = time.monotonic()
    process = subprocess.Popen([SHOAL, *args, "--json"], stdout=subprocess.PIPE)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_rss_bytes(process))
        time.sleep(0.05)
    return process.returncode, json.loads(process.stdout.read()), peak, time.monotonic() - start


def make_files(top):
    os.mkdir(top)
    fd = os.open(top, os.O_RDONLY)
    for i in range(FILES):
        file = os.open(f"picture-{i:09}.jpg", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
        if i % 100 == 0:  # the others stay empty: the number counts here, and disks are small
            os.write(file, b"%d" % i)
        os.close(file)
        if i % 500_000 == 0:
            print(f"{i} files made", flush=True)
    os.close(fd)


def checks(top, data):
    status, counts, peak, seconds = run("import", "dir", top, "flat", "--data", data)
    print(f"import: {seconds:.1f} s, {peak >> 20} MiB, {counts}", flush=True)
    yield "all are imported", status == 0 and counts["copied"] == FILES
    yield "the import stays below 256 MiB", 0 < peak < LIMIT_BYTES
    status, counts, peak, seconds = run("import", "dir", top, "flat", "--data", data)
    print(f"again: {seconds:.1f} s, {peak >> 20} MiB, {counts}", flush=True)
    yield "a second run copies nothing", status == 0 and counts["unchanged"] == FILES
    yield "and stays below 256 MiB", 0 < peak < LIMIT_BYTES
    status, info, _, _ = run("info", "--data", data)
    yield "the count is exact", status == 0 and info["objects"] == FILES


def main():
    folder = tempfile.mkdtemp(prefix="shoal-soak-", dir=FOLDER)
    passed = failed = 0
    try:
        top = os.path.join(folder, "flat")
        make_files(top)
        for name, holds in checks(top, os.path.join(folder, "data")):
            print(("ok: " if holds else "FAILED: ") + name, flush=True)
            passed += holds
            failed += not holds
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
