"""Who may do what."""

import os
import stat
import subprocess

import pytest

from conftest import SHOAL, running


def bearer(token):
    return [("Authorization", "Bearer " + token)]


def test_token_file(server):
    path = os.path.join(server.data, "access.token")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert len(server.token) >= 64
    int(server.token, 16)
    assert stat.S_IMODE(os.stat(os.path.join(server.data, "admin.sock")).st_mode) == 0o600


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_writes_need_the_token(server, key, method):
    body = b"x" if method == "PUT" else None
    absent = server.request(method, f"/pub/{key}", body=body)
    assert (absent.status, absent.get("WWW-Authenticate")) == (401, 'Bearer realm="shoal"')
    wrongs = ["0" * 64, server.token[:-1], server.token + "0", "", server.token.upper() + "x"]
    for wrong in wrongs:
        assert server.request(method, f"/pub/{key}", bearer(wrong), body).status == 403, wrong
    basic = [("Authorization", "Basic " + server.token)]
    assert server.request(method, f"/pub/{key}", basic, body).status == 403
    twice = bearer(server.token) + bearer(server.token)
    assert server.request(method, f"/pub/{key}", twice, body).status == 403
    assert server.get(f"/pub/{key}").status == 404


def test_scheme_is_case_insensitive(server, key):
    lower = [("Authorization", "bearer " + server.token)]
    assert server.request("PUT", f"/pub/{key}", lower, b"x").status == 200


def test_private_bucket(server, key):
    server.put(f"/priv/{key}", b"secret")
    for method in ("GET", "HEAD"):
        assert server.request(method, f"/priv/{key}").status == 401
        assert server.request(method, f"/priv/{key}", bearer("f" * 64)).status == 403
        got = server.request(method, f"/priv/{key}", auth=True)
        assert got.status == 200
        assert got.get("X-Content-Type-Options") is None
    assert server.get("/priv/").status == 401
    assert key.encode() in server.request("GET", "/priv/", auth=True).body.split()


def test_existence_is_not_told(server):
    answers = [server.get(path) for path in ("/priv/absent", "/no-such-bucket/x", "/NOT_LEGAL/x",
                                             "/priv/", "/no-such-bucket/", "/priv",
                                             "/" + "b" * 100 + "/x")]
    assert {a.status for a in answers} == {401}
    assert len({a.body for a in answers}) == 1


def test_absent_with_token(server):
    for path in ("/priv/absent", "/no-such-bucket/x", "/no-such-bucket/", "/NOT_LEGAL/x"):
        assert server.request("GET", path, auth=True).status == 404, path
    assert server.request("PUT", "/no-such-bucket/x", body=b"x", auth=True).status == 404


def test_public_and_private_again(server, key):
    server.bucket("turning")
    server.put(f"/turning/{key}", b"x")
    for _ in range(2):
        assert server.get(f"/turning/{key}").status == 401
        assert server.admin("POST", "/buckets/turning/public").status == 200
        assert server.get(f"/turning/{key}").status == 200
        assert server.admin("POST", "/buckets/turning/private").status == 200


def refused(data):
    done = subprocess.run([SHOAL, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin",
                           "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=20)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


def test_token_file_must_be_private_and_whole(tmp_path):
    data = tmp_path / "data"
    with running(data) as server:
        token = server.token
    path = data / "access.token"
    path.chmod(0o640)
    status, error = refused(data)
    assert status == 1 and "access.token" in error and error.count("\n") == 1
    path.chmod(0o600)
    path.write_text(token[:10])
    status, error = refused(data)
    assert status == 1 and "access.token" in error
    path.write_text(token + "\n")
    with running(data) as server:
        assert server.token == token
