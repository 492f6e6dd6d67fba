"""The shape of command lines: options, help, statuses, one line of error."""

import subprocess

import pytest

from conftest import SHOAL

COMMANDS = ["serve", "import", "export", "put", "get", "ls", "stat", "rm", "bucket", "info", "check",
            "bench"]


def bare(*args):
    done = subprocess.run([SHOAL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_help_and_version():
    status, out, err = bare("--help")
    assert status == 0 and err == ""
    for command in COMMANDS:
        assert f"\n  {command} " in out
    status, out, err = bare("--version")
    assert status == 0 and out.startswith("shoal ") and out[6].isdigit()
    status, out, err = bare()
    assert status == 2 and out == "" and err.startswith("usage: shoal")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    status, out, err = bare(command, "--help")
    assert status == 0 and err == ""
    assert out.startswith("usage: shoal " + command) or "shoal " + command in out
    assert "--data" in out


@pytest.mark.parametrize("args", [
    ["nonsense"],
    ["put"],
    ["put", "a", "demo/b", "c"],
    ["put", "--nonsense", "a", "demo/b"],
    ["put", "-x", "a", "demo/b"],
    ["put", "a", "demo/b", "--data"],
    ["put", "a", "demo/b", "--json=yes"],
    ["put", "a", "demo/b"],  # no data directory
    ["put", "-", "demo/b", "--type", "a\r\nb", "--data", "x"],
    ["put", "-", "demo/b", "--type=", "--data", "x"],
    ["ls"],
    ["get", "demo/x", "-", "--json", "--data", "x"],
    ["ls", "--json", "-0", "--data", "x"],
    ["import", "dir", "x", "--data", "y"],
    ["import", "zip", "x", "demo", "--data", "y"],
    ["import", "dir", "x", "demo", "--readers", "0", "--data", "y"],
    ["import", "dir", "x", "demo", "--readers", "many", "--data", "y"],
    ["bucket", "create", "--data", "x"],
    ["bucket", "list", "demo", "--data", "x"],
    ["bucket", "rename", "demo", "--data", "x"],
    ["bucket", "create", "Bad_Name", "--data", "x"],
    ["bench", "get", "--data", "x"],
    ["bench", "put", "--data", "x"],
    ["bench", "put", "--objects", "10", "--size", "1Q", "--data", "x"],
    ["bench", "put", "--objects", "99999999999999999999", "--data", "x"],
    ["stat", "no-slash-here-is-a-bucket-only", "--data", "x"],
])
def test_wrong_usage_is_status_2_and_one_line(args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = bare(*args)
    assert status == 2, err
    assert out == ""
    assert err.startswith("shoal") and err.count("\n") == 1
    assert "--help" in err
    assert list(tmp_path.iterdir()) == []


def test_options_stand_anywhere_and_dashes_end_them(shoal, tmp_path):
    odd = tmp_path / "--json"
    odd.write_bytes(b"x")
    shoal("put", "--", "--json", "demo/--data", cwd=tmp_path)
    assert shoal.keys("demo") == [b"--data"]
    elsewhere = tmp_path / "elsewhere"
    shoal("put", "-", "--data", elsewhere, "demo/x", "--json", stdin=b"1")
    assert shoal("ls", "demo", f"--data={elsewhere}", "-0").out == b"x\0"
    assert shoal.keys("demo") == [b"--data"]
