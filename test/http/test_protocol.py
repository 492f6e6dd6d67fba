"""HTTP/1.1 itself: connections, framing, and everything malformed."""

import time

import pytest

from conftest import Closed, make_request

OK = "GET /pub/proto HTTP/1.1\r\nHost: test\r\n"


@pytest.fixture(autouse=True)
def an_object(server):
    if server.get("/pub/proto").status != 200:
        server.put("/pub/proto", b"the object")


# --- connections ---

def test_keep_alive(server):
    with server.connect() as c:
        for _ in range(50):
            c.send(make_request("GET", "/pub/proto"))
            got = c.response()
            assert got.body == b"the object"
            assert got.get("Connection") is None


def test_close_on_request(server):
    with server.connect() as c:
        c.send(make_request("GET", "/pub/proto", [("Connection", "foo, Close")]))
        assert c.response().get("Connection") == "close"
        assert c.is_closed()


@pytest.mark.parametrize("extra", ["", "Host: test\r\n", "Connection: keep-alive\r\n"])
def test_http_1_0(server, extra):
    with server.connect() as c:
        c.send(f"GET /pub/proto HTTP/1.0\r\n{extra}\r\n".encode())
        got = c.response()
        assert (got.status, got.body, got.get("Connection")) == (200, b"the object", "close")
        assert c.is_closed()


def test_pipelining(server):
    wanted = []
    request = b""
    for i in range(300):
        kind = i % 5
        if kind == 0:
            request += make_request("GET", "/pub/proto")
            wanted.append((200, b"the object"))
        elif kind == 1:
            request += make_request("HEAD", "/pub/proto")
            wanted.append((200, None))
        elif kind == 2:
            request += make_request("GET", "/pub/absent")
            wanted.append((404, b""))
        elif kind == 3:
            request += make_request("PUT", f"/pub/piped{i}", [server.auth()], str(i).encode())
            wanted.append((200, b""))
        else:
            request += make_request("GET", f"/pub/piped{i - 1}")
            wanted.append((200, str(i - 1).encode()))
    with server.connect() as c:
        c.send(request)
        for i, (status, body) in enumerate(wanted):
            got = c.response(head=i % 5 == 1)
            assert got.status == status, i
            if body:
                assert got.body == body, i


def test_pipelining_of_large_objects(server):
    bodies = [bytes([i]) * (50000 + i * 30000) for i in range(12)]
    for i, body in enumerate(bodies):
        server.put(f"/pub/large{i}", body)
    with server.connect() as c:
        c.send(b"".join(make_request("GET", f"/pub/large{i % 12}") for i in range(60)))
        time.sleep(0.3)  # let it block on the full socket
        for i in range(60):
            assert c.response().body == bodies[i % 12]


def test_pipelined_then_half_closed(server):
    with server.connect() as c:
        c.send(make_request("GET", "/pub/proto") * 10)
        c.finish_sending()
        for _ in range(10):
            assert c.response().body == b"the object"
        assert c.is_closed()


def test_one_byte_at_a_time(server):
    with server.connect() as c:
        for byte in make_request("GET", "/pub/proto") * 2:
            c.send(bytes([byte]))
            time.sleep(0.001)
        assert c.response().body == b"the object"
        assert c.response().body == b"the object"


def test_empty_line_before_a_request(server):
    with server.connect() as c:
        c.send(b"\r\n" + make_request("GET", "/pub/proto"))
        assert c.response().status == 200


def test_higher_minor_version(server):
    with server.connect() as c:
        c.send(OK.replace("1.1", "1.2").encode() + b"\r\n")
        assert c.response().status == 200


def test_many_connections(server):
    connections = [server.connect() for _ in range(200)]
    opened = [c.__enter__() for c in connections]
    for c in opened:
        c.send(make_request("GET", "/pub/proto"))
    for c in opened:
        assert c.response().body == b"the object"
    for c in connections:
        c.__exit__(None, None, None)


# --- bodies ---

def chunked(server, key, framing, fields=()):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}",
                            [server.auth(), ("Transfer-Encoding", "chunked"), *fields]) + framing)
        return c.response()


@pytest.mark.parametrize("framing, body", [
    (b"0\r\n\r\n", b""),
    (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    (b"5\r\nhello\r\n0006\r\n world\r\n000\r\n\r\n", b"hello world"),
    (b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"0123456789" * 2),
    (b"5;name=value;other=\"x y\"\r\nhello\r\n0\r\n\r\n", b"hello"),
    (b"5\r\nhello\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n", b"hello"),
    (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n"),
])
def test_chunked(server, key, framing, body):
    assert chunked(server, key, framing).status == 200
    assert server.get(f"/pub/{key}").body == body


def test_chunked_byte_by_byte(server, key):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}",
                            [server.auth(), ("Transfer-Encoding", "chunked")]))
        for byte in b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n":
            c.send(bytes([byte]))
            time.sleep(0.001)
        assert c.response().status == 200
    assert server.get(f"/pub/{key}").body == b"hello!"


@pytest.mark.parametrize("framing", [
    b"x\r\nhello\r\n0\r\n\r\n",
    b"\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"5\nhello\r\n0\r\n\r\n",
    b"5\rhello\r\n0\r\n\r\n",
    b"5\r\nhelloo\r\n0\r\n\r\n",
    b"5\r\nhello\n0\r\n\r\n",
    b"5\r\nhello0\r\n\r\n",
    b"fffffffffffffffff\r\nhello\r\n",
    b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    b"00000000000000005\r\nhello\r\n0\r\n\r\n",
    b"5;a=\x01\r\nhello\r\n0\r\n\r\n",
    b"5;a\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nno colon\r\n\r\n",
    b"5\r\nhello\r\n0\r\n: x\r\n\r\n",
    b"5\r\nhello\r\n0\r\n folded: x\r\n\r\n",
    b"5\r\nhello\r\n0\r\nA: b\n\r\n",
    b"5\r\nhello\r\n0\r\n\n",
    b"5;" + b"e" * 20000 + b"\r\nhello\r\n0\r\n\r\n",
    b"5\r\nhello\r\n0\r\nA: " + b"t" * 10000 + b"\r\n\r\n",
    b"1;a=b\r\nx\r\n" * 8000 + b"0\r\n\r\n",
])
def test_bad_chunks(server, key, framing):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}",
                            [server.auth(), ("Transfer-Encoding", "chunked")]))
        try:
            c.send(framing)
        except OSError:
            pass
        if framing == b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n":
            c.finish_sending()  # legal framing of an absurd size: the body never ends
            try:
                assert c.response().status in (400, 413)
            except (Closed, OSError):
                pass
        else:
            assert c.response().status == 400
            assert c.is_closed()
    assert server.get(f"/pub/{key}").status == 404


def test_expect_continue(server, key):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}", [server.auth(), ("Expect", "100-continue"),
                                                   ("Content-Length", "5")]))
        assert c.response().status == 100
        c.send(b"hello")
        assert c.response().status == 200
        c.send(make_request("GET", f"/pub/{key}"))
        assert c.response().body == b"hello"


def test_expect_refused_early(server, key):
    for fields, status in (([], 401), ([server.auth(), ("Content-Encoding", "gzip")], 415),
                           ([server.auth(), ("Content-Length", "6000000000000")], 413)):
        if not any(n == "Content-Length" for n, _ in fields):
            fields = [*fields, ("Content-Length", "5")]
        with server.connect() as c:
            c.send(make_request("PUT", f"/pub/{key}", [("Expect", "100-continue"), *fields]))
            got = c.response()
            assert (got.status, got.get("Connection")) == (status, "close")
            assert c.is_closed()


def test_expect_with_body_at_once(server, key):
    with server.connect() as c:
        c.send(make_request("PUT", f"/pub/{key}", [server.auth(), ("Expect", "100-continue")],
                            b"hello"))
        got = c.response()
        if got.status == 100:
            got = c.response()
        assert got.status == 200


def test_early_error_arrives_while_sending(server, key):
    """The client is in the middle of 60 MB; the answer must not be lost in a reset."""
    for _ in range(3):
        with server.connect() as c:
            c.send(make_request("PUT", f"/pub/{key}", [("Content-Length", "60000000")]))
            block = b"x" * 100000
            for _ in range(600):
                c.send(block)
            got = c.response()
            assert got.status == 401
            assert b"access token" in got.body
            assert c.is_closed()


def test_body_of_get_is_not_taken_for_a_request(server):
    smuggled = make_request("GET", "/pub/absent")
    with server.connect() as c:
        c.send(make_request("GET", "/pub/proto", body=smuggled))
        assert c.response().status == 200
        assert c.rest() == b""


def test_too_large(server, key):
    got = server.request("PUT", f"/pub/{key}", [("Content-Length", str((5 << 40) + 1))], auth=True)
    assert got.status == 413


# --- malformed heads: what is sent, and what is answered (closing without a word is as good as 400) ---

MALFORMED = [
    (b"GET\r\n\r\n", 400),
    (b"\r\n\r\n", 400),
    (b"GET /\r\n\r\n", 400),
    (b"GET / \r\n\r\n", 400),
    (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    (b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/11\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/1.\r\nHost: a\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET pub/proto HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/a<b> HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/\x00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/% HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/a%00b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /%zz/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\nHost: a\n\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\n\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\r\nHost: a\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX\t: b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX(: b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX: a\r\n\tfolded\r\n\r\n", 400),
    (b"GET /pub/proto HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nx", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
     b"0\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"
     b"\r\n\r\n0\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
     400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"PUT /pub/bad HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 200-ok\r\n\r\n", 417),
    (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    (b"GET /" + b"a" * 40000, 414),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 33000 + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 100 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"Xxxxxxxxx: aaaaaaaaaa\r\n" * 4000 + b"\r\n", 431),
    (bytes(range(256)) * 10, 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300 + b"\n", 400),
    (b"\xff" * 70000, 414),
    (b"\x00" * 100 + b"\r\n", 400),
]


@pytest.mark.parametrize("sent, status", MALFORMED,
                         ids=[repr(sent[:48])[2:-1] for sent, _ in MALFORMED])
@pytest.mark.parametrize("pieces", [1, 3])
def test_malformed(server, sent, status, pieces):
    with server.connect() as c:
        step = max(1, len(sent) // pieces)
        try:
            for at in range(0, len(sent), step):
                c.send(sent[at:at + step])
                if pieces > 1:
                    time.sleep(0.005)
        except OSError:
            pass  # refused before all was sent
        got = c.response(head=False)
        assert got.status == status
        # Where the framing is sound (a method, an escape in the path) the connection may go on.
        if status not in (405, 501) and b"%" not in sent or b"Transfer" in sent:
            assert got.get("Connection") == "close"
            assert c.is_closed()
    assert server.alive()
    assert server.get("/pub/proto").body == b"the object"


def test_smuggling_stops_the_connection(server):
    """What follows a refused request is never answered."""
    for sent in (b"PUT /pub/bad HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 b"GET /pub/proto HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n"):
        with server.connect() as c:
            c.send(sent + make_request("GET", "/pub/proto"))
            assert c.response().status == 400
            assert c.rest() == b""


def test_random_bytes(server):
    import random
    generator = random.Random(7)
    for _ in range(150):
        sent = bytearray(make_request("PUT", "/pub/fuzzed", [server.auth()], b"body"))
        for _ in range(generator.randrange(1, 6)):
            sent[generator.randrange(len(sent))] = generator.randrange(256)
        with server.connect() as c:
            c.send(bytes(sent))
            c.finish_sending()
            try:
                c.rest()
            except ConnectionResetError:
                pass
    assert server.alive()
    assert server.get("/pub/proto").body == b"the object"
