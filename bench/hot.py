"""hot-1k: GET of 10,000 distinct objects of 1 KB, shoal against nginx on the same files.

Both serve with one worker on one core, and wrk has the other one: who uses less CPU a request
answers more of them. nginx has Debian's own nginx.conf and default site with paths, port, user and
worker count changed, and two settings that must be equal on both sides: no access log (shoal writes
none) and no limit of requests a connection (shoal has none; nginx' own is 1,000).
"""

import hashlib
import os
import random
import shutil
import subprocess
import urllib.request

import harness
from harness import Failed, SHOAL

OBJECTS = 10_000
SIZE = 1024
CONNECTIONS = 64
SERVER_CPU, CLIENT_CPU = 0, 1


def make_files(folder):
    """Files like those of an image site: xx/xx/….jpg, every one different."""
    chance = random.Random(1)
    paths = []
    for number in range(OBJECTS):
        name = hashlib.md5(b"%d" % number).hexdigest()
        path = f"{name[:2]}/{name[2:4]}/{name[4:12]}.jpg"
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(folder, path), "wb") as file:
            file.write(chance.randbytes(SIZE))
        paths.append(path)
    chance.shuffle(paths)
    return paths


def write_list(path, bucket, names):
    with open(path, "w") as out:
        out.writelines(f"/{bucket}/{name}\n" for name in names)


# --- nginx as Debian configures it ---


def nginx_path():
    out = subprocess.run([os.path.join(harness.ROOT, "scripts/deps"), "nginx"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return out.strip()


def debian_files(nginx):
    """The folder with Debian's nginx.conf: of the unpacked package, or the system's."""
    unpacked = os.path.join(os.path.dirname(nginx), "../../etc/nginx")
    return os.path.normpath(unpacked) if os.path.isdir(unpacked) else "/etc/nginx"


def replaced(text, old, new):
    if old not in text:
        raise Failed(f"nginx' configuration has no '{old}': not Debian's own?")
    return text.replace(old, new)


def nginx_site(etc, folder, port):
    with open(os.path.join(etc, "sites-available/default")) as file:
        text = file.read()
    text = replaced(text, "listen 80 default_server;", f"listen 127.0.0.1:{port} default_server;")
    text = replaced(text, "listen [::]:80 default_server;", "")
    text = replaced(text, "root /var/www/html;", f"root {folder}/files;")
    path = os.path.join(folder, "site.conf")
    with open(path, "w") as out:
        out.write(text)
    return path


def nginx_config(etc, folder, port):
    with open(os.path.join(etc, "nginx.conf")) as file:
        text = file.read()
    text = replaced(text, "user www-data;", "user root;" if os.getuid() == 0 else "")
    text = replaced(text, "worker_processes auto;", "worker_processes 1;\ndaemon off;")
    text = replaced(text, "pid /run/nginx.pid;", f"pid {folder}/nginx.pid;")
    text = replaced(text, "error_log /var/log/nginx/error.log;", f"error_log {folder}/error.log;")
    text = replaced(text, "include /etc/nginx/modules-enabled/*.conf;", "")
    text = replaced(text, "access_log /var/log/nginx/access.log;",
                    "access_log off;\n\tkeepalive_requests 1000000000;")
    text = replaced(text, "include /etc/nginx/mime.types;", f"include {etc}/mime.types;")
    text = replaced(text, "include /etc/nginx/conf.d/*.conf;", "\n".join(
        f"\t{kind}_temp_path {folder}/temp-{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")))
    text = replaced(text, "include /etc/nginx/sites-enabled/*;",
                    f"include {nginx_site(etc, folder, port)};")
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w") as out:
        out.write(text)
    return path


def nginx_server(folder):
    nginx, port = nginx_path(), harness.free_port()
    config = nginx_config(debian_files(nginx), folder, port)
    argv = [nginx, "-e", os.path.join(folder, "error.log"), "-p", folder, "-c", config]
    return harness.server(harness.pinned(SERVER_CPU, argv), port,
                          os.path.join(folder, "nginx.log")), port


# --- shoal ---


def fill_store(data, bucket, files):
    harness.run([SHOAL, "bucket", "create", bucket, "--public", "--data", data])
    harness.run([SHOAL, "import", "dir", files, bucket, "--data", data])


def shoal_server(data, folder):
    port = harness.free_port()
    argv = [SHOAL, "serve", "--data", data, "--listen", f"127.0.0.1:{port}",
            "--admin", f"127.0.0.1:{harness.free_port()}", "--workers", "1"]
    return harness.server(harness.pinned(SERVER_CPU, argv), port,
                          os.path.join(folder, "shoal.log")), port


# --- measuring ---


def check_same(port_a, port_b, bucket, folder, names):
    """Both must give the very bytes of the file, or what they do is not the same work."""
    for name in names[:50]:
        with open(os.path.join(folder, "files", bucket, name), "rb") as file:
            wanted = file.read()
        for port in (port_a, port_b):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{bucket}/{name}") as answer:
                if answer.read() != wanted:
                    raise Failed(f"port {port} gives other bytes for {name}")


def load(pid, port, paths_file, seconds):
    """One run of wrk; returns its figures with the server's CPU time a request."""
    before, client_before = harness.cpu_seconds(pid), harness.children_cpu_seconds()
    argv = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "-s",
            os.path.join(harness.ROOT, "bench", "hot.lua"), f"http://127.0.0.1:{port}/", "--",
            paths_file]
    _, out = harness.run(harness.pinned(CLIENT_CPU, argv), seconds + 30)
    figures = harness.last_json(out)
    if figures["errors"] or not figures["requests"]:
        raise Failed(f"port {port}: {figures['errors']} errors in {figures['requests']} requests")
    used = harness.cpu_seconds(pid) - before
    figures["rate"] = figures["requests"] / figures["seconds"]
    figures["cpu_us"] = used / figures["requests"] * 1e6
    figures["busy"] = used / figures["seconds"]
    figures["client_busy"] = ((harness.children_cpu_seconds() - client_before)
                              / figures["seconds"])
    return figures


class Side:
    def __init__(self, name, pid, port):
        self.name, self.pid, self.port = name, pid, port
        self.runs = []

    def median(self, figure):
        return harness.median([run[figure] for run in self.runs])


def alternate(sides, paths_file, rounds, seconds, clock):
    for side in sides:
        load(side.pid, side.port, paths_file, 1)  # warms both alike
        side.runs = []
    for _ in range(rounds):
        if sides[0].runs and not clock.fits(len(sides) * (seconds + 0.5)):
            break
        for side in sides:
            side.runs.append(load(side.pid, side.port, paths_file, seconds))
            harness.say(f"  {side.name}: {side.runs[-1]['rate']:,.0f} requests/s, "
                        f"{side.runs[-1]['cpu_us']:.1f} us CPU a request")


def side_figures(sides):
    return {side.name: {
        "requests_per_s": side.median("rate"),
        "cpu_us_per_request": side.median("cpu_us"),
        "cpu_busy": side.median("busy"), "client_cpu_busy": side.median("client_busy"),
        "p50_us": side.median("p50_us"), "p99_us": side.median("p99_us"),
        "runs": [run["rate"] for run in side.runs],
    } for side in sides}


def measure(sides, folder, bucket, names, quick, clock):
    seconds = 3 if quick else 10
    every, single = os.path.join(folder, "every"), os.path.join(folder, "single")
    write_list(every, bucket, names)
    write_list(single, bucket, names[:1])
    harness.say(f"hot-1k: {OBJECTS:,} distinct URLs")
    alternate(sides, every, 3 if quick else 5, seconds, clock)
    distinct = side_figures(sides)
    harness.say("hot-1k: one URL")
    alternate(sides, single, 2 if quick else 3, 2 if quick else 5, clock)
    return distinct, side_figures(sides)


def settings_of(folder, quick):
    version = subprocess.run([nginx_path(), "-v"], stderr=subprocess.PIPE, text=True).stderr
    pinned = (os.cpu_count() or 1) > 1
    return {
        **harness.machine(folder), "quick": quick, "objects": OBJECTS, "size_bytes": SIZE,
        "connections": CONNECTIONS, "client": "wrk, 1 thread", "peer": version.strip(),
        "workers": "1 each", "access_log": "off on both sides",
        "keep_alive_limit": "none on both sides",
        "pinning": f"server on core {SERVER_CPU}, wrk on core {CLIENT_CPU}" if pinned else "none",
        "peer_config": "Debian's nginx.conf and default site: sendfile, tcp_nopush, try_files",
    }


def run_hot_1k(quick):
    harness.need_program("wrk", "run 'make bench-deps'")
    clock = harness.Clock(quick)
    with harness.work_folder("hot-1k") as folder:
        settings = settings_of(folder, quick)
        bucket, data = "bench", os.path.join(folder, "data")
        os.makedirs(os.path.join(folder, "files"))
        names = make_files(os.path.join(folder, "files", bucket))
        fill_store(data, bucket, os.path.join(folder, "files", bucket))
        harness.settle(folder)
        ours, our_port = shoal_server(data, folder)
        theirs, their_port = nginx_server(folder)
        with ours as our_pid, theirs as their_pid:
            check_same(our_port, their_port, bucket, folder, names)
            sides = [Side("shoal", our_pid, our_port), Side("nginx", their_pid, their_port)]
            distinct, single = measure(sides, folder, bucket, names, quick, clock)
    return outcome(distinct, single, settings)


def outcome(distinct, single, settings):
    ours, theirs = distinct["shoal"], distinct["nginx"]
    figures = {
        "cpu_ratio": ours["cpu_us_per_request"] / theirs["cpu_us_per_request"],
        "cpu_target": 0.6,
        "distinct": distinct,
        "single_url": single,
        "single_url_ratio": single["shoal"]["requests_per_s"] / single["nginx"]["requests_per_s"],
        "single_url_cpu_ratio": (single["shoal"]["cpu_us_per_request"]
                                 / single["nginx"]["cpu_us_per_request"]),
    }
    figures["cpu_met"] = figures["cpu_ratio"] <= figures["cpu_target"]
    return harness.result("hot-1k", "requests/s", ours["requests_per_s"],
                          {"nginx": theirs["requests_per_s"]},
                          ours["requests_per_s"] / theirs["requests_per_s"], 1.5, figures, settings)
