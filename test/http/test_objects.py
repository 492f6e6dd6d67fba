"""Objects and their responses: GET, HEAD, PUT, DELETE, fields, ranges, conditions, lists."""

import email.utils
import hashlib
import http.client
import re

import pytest

from conftest import make_request


def etag(body):
    return '"' + hashlib.md5(body).hexdigest() + '"'


def test_put_get_head_delete(server, key):
    body = b"some bytes \x00\xff\r\n"
    put = server.put(f"/pub/{key}", body, [("Content-Type", "image/x-test")])
    assert put.get("ETag") == etag(body)
    got = server.get(f"/pub/{key}")
    assert (got.status, got.reason, got.body) == (200, "OK", body)
    assert got.get("Content-Type") == "image/x-test"
    assert got.get("ETag") == etag(body)
    assert got.get("Accept-Ranges") == "bytes"
    assert got.get("Server") == "shoal"
    assert got.get("X-Content-Type-Options") == "nosniff"
    for name in ("Date", "Last-Modified"):
        assert email.utils.parsedate_to_datetime(got.get(name))
        assert got.get(name).endswith(" GMT")
    head = server.request("HEAD", f"/pub/{key}")
    assert [f for f in head.fields if f[0] != "Date"] == [f for f in got.fields if f[0] != "Date"]
    assert server.request("DELETE", f"/pub/{key}", auth=True).status == 204
    assert server.get(f"/pub/{key}").status == 404
    assert server.request("DELETE", f"/pub/{key}", auth=True).status == 404


def test_replace(server, key):
    for body in (b"first", b"", b"third" * 1000):
        assert server.put(f"/pub/{key}", body).get("ETag") == etag(body)
        got = server.get(f"/pub/{key}")
        assert (got.body, got.get("Content-Length")) == (body, str(len(body)))


def test_http_client(server, key):
    c = http.client.HTTPConnection(*server.address, timeout=20)
    token = {"Authorization": "Bearer " + server.token}
    for i in range(20):
        c.request("PUT", f"/priv/{key}-{i}", body=b"x" * i, headers=token)
        assert c.getresponse().read() == b""
        c.request("GET", f"/priv/{key}-{i}", headers=token)
        assert c.getresponse().read() == b"x" * i
    c.close()


@pytest.mark.parametrize("size", [0, 1, 1000, 16384, 16385, 40000, 65536, 65537, 131072, 160000,
                                  4 << 20, (4 << 20) + 1, 9000001])
def test_sizes(server, key, size):
    body = (hashlib.sha256(str(size).encode()).digest() * (size // 32 + 1))[:size]
    assert server.put(f"/pub/{key}", body).get("ETag") == etag(body)
    got = server.get(f"/pub/{key}")
    assert got.get("ETag") == etag(body)
    assert got.body == body
    if size > 100:
        part = server.get(f"/pub/{key}", [("Range", f"bytes={size // 3}-{size - 2}")])
        assert part.status == 206
        assert part.body == body[size // 3:size - 1]


@pytest.mark.parametrize("sent, length", [("binary/octet-stream", None), ("text/plain", 10)])
def test_type_default_and_given(server, key, sent, length):
    server.put(f"/pub/{key}", b"x", [("Content-Type", sent)] if length else [])
    assert server.get(f"/pub/{key}").get("Content-Type") == sent


@pytest.mark.parametrize("kind, active", [
    ("image/svg+xml", True), ("text/html; charset=utf-8", True), ("TEXT/HTML", True),
    ("application/xhtml+xml", True), ("application/xml", True), ("text/xml", True),
    ("application/atom+xml", True), ("image/jpeg", False), ("text/plain", False)])
def test_active_types_are_sandboxed(server, key, kind, active):
    server.put(f"/pub/{key}", b"<svg/>", [("Content-Type", kind)])
    got = server.get(f"/pub/{key}")
    assert got.get("X-Content-Type-Options") == "nosniff"
    policy = got.get("Content-Security-Policy")
    assert (policy is not None and policy.startswith("sandbox")) == active


# Sent path after /pub/, and the key that a plain list shows for it.
KEYS = [
    ("a/b/c", b"a/b/c"),
    ("a//b", b"a//b"),
    ("./x", b"./x"),
    ("../up", b"../up"),
    ("..", b".."),
    ("a/../b", b"a/../b"),
    ("%2e%2e/enc", b"../enc"),
    ("sp%20ace", b"sp ace"),
    ("pl+us", b"pl+us"),
    ("enc%2Bplus", b"enc+plus"),
    ("sl%2Fash", b"sl/ash"),
    ("per%25cent", b"per%25cent"),
    ("%E6%97%A5%E6%9C%AC", "日本".encode()),
    ("raw%FF%FE", b"raw\xff\xfe"),
    ("line%0Abreak", b"line%0Abreak"),
    ("trailing/", b"trailing/"),
    ("/leading", b"/leading"),
    ("q%3Fmark", b"q?mark"),
    ("hash%23", b"hash#"),
    ("br[1]{2}|^`", b"br[1]{2}|^`"),
    ("%C3%A4", "ä".encode()),
]


def test_keys_are_bytes(server):
    for i, (path, _) in enumerate(KEYS):
        server.put(f"/pub/KEYS/{path}", str(i).encode())
    for i, (path, _) in enumerate(KEYS):
        assert server.get(f"/pub/KEYS/{path}").body == str(i).encode(), path
    listed = server.get("/pub/?prefix=KEYS/").body
    assert sorted(listed.splitlines()) == sorted(b"KEYS/" + shown for _, shown in KEYS)


def test_query_is_ignored_for_objects(server, key):
    server.put(f"/pub/{key}", b"x")
    assert server.get(f"/pub/{key}?v=1&x=%zz").body == b"x"


def test_absolute_form(server, key):
    server.put(f"/pub/{key}", b"x")
    assert server.get(f"http://test/pub/{key}").body == b"x"
    assert server.get("http://test").status == 200


@pytest.mark.parametrize("length, status", [(1024, 200), (1025, 400), (3000, 400)])
def test_key_length(server, length, status):
    assert server.request("PUT", "/pub/" + "k" * length, body=b"x", auth=True).status == status
    escaped = "/pub/" + "%6B" * length
    assert server.get(escaped).status == (414 if 3 * length > 8192 else status)


def test_root_and_redirect(server):
    assert server.get("/").status == 200
    assert b"shoal" in server.get("/").body
    moved = server.get("/pub")
    assert (moved.status, moved.get("Location")) == (301, "/pub/")
    assert server.request("PUT", "/pub/", body=b"x", auth=True).status == 405
    assert server.request("PUT", "/", body=b"x", auth=True).status == 405


# --- ranges ---

BODY = bytes(range(256)) * 4


@pytest.mark.parametrize("value, status, start, end", [
    ("bytes=0-0", 206, 0, 1),
    ("bytes=0-", 206, 0, 1024),
    ("bytes=5-9", 206, 5, 10),
    ("bytes=1000-5000", 206, 1000, 1024),
    ("bytes=1023-", 206, 1023, 1024),
    ("bytes=-1", 206, 1023, 1024),
    ("bytes=-1024", 206, 0, 1024),
    ("bytes=-5000", 206, 0, 1024),
    ("BYTES=1-2", 206, 1, 3),
    ("bytes=0-99999999999999999999999", 206, 0, 1024),
    ("bytes=1024-", 416, 0, 0),
    ("bytes=99999999999999999999999-", 416, 0, 0),
    ("bytes=-0", 416, 0, 0),
    ("bytes=9-5", 200, 0, 1024),
    ("bytes=", 200, 0, 1024),
    ("bytes=-", 200, 0, 1024),
    ("bytes=a-b", 200, 0, 1024),
    ("bytes=1", 200, 0, 1024),
    ("bytes=1-2x", 200, 0, 1024),
    ("bytes 1-2", 200, 0, 1024),
    ("lines=1-2", 200, 0, 1024),
    ("bytes=0-1,5-6", 200, 0, 1024),
])
def test_ranges(server, value, status, start, end):
    server.put("/pub/ranged", BODY)
    got = server.get("/pub/ranged", [("Range", value)])
    assert got.status == status
    if status == 416:
        assert got.get("Content-Range") == "bytes */1024"
        return
    assert got.body == BODY[start:end]
    if status == 206:
        assert got.get("Content-Range") == f"bytes {start}-{end - 1}/1024"
        assert got.get("Content-Length") == str(end - start)
    else:
        assert got.get("Content-Range") is None


def test_range_of_empty_object(server, key):
    server.put(f"/pub/{key}", b"")
    assert server.get(f"/pub/{key}", [("Range", "bytes=0-")]).status == 416
    assert server.get(f"/pub/{key}", [("Range", "bytes=-5")]).status == 416


def test_range_and_head(server):
    server.put("/pub/ranged", BODY)
    head = server.request("HEAD", "/pub/ranged", [("Range", "bytes=0-4")])
    assert (head.status, head.get("Content-Length")) == (200, "1024")


def test_if_range(server):
    server.put("/pub/ranged", BODY)
    modified = server.get("/pub/ranged").get("Last-Modified")
    for condition, status in [(etag(BODY), 206), ('"other"', 200), ("W/" + etag(BODY), 200),
                              (modified, 206), ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
                              ("nonsense", 200)]:
        got = server.get("/pub/ranged", [("Range", "bytes=0-3"), ("If-Range", condition)])
        assert got.status == status, condition
        assert got.body == (BODY[:4] if status == 206 else BODY)


# --- conditions ---

OLD, FUTURE = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


def conditions():
    tag = etag(BODY)
    return [
        ([("If-None-Match", tag)], 304),
        ([("If-None-Match", "W/" + tag)], 304),
        ([("If-None-Match", "*")], 304),
        ([("If-None-Match", '"a", ' + tag + ' , "b,c"')], 304),
        ([("If-None-Match", '"a"'), ("If-None-Match", tag)], 304),
        ([("If-None-Match", '"a"')], 200),
        ([("If-None-Match", tag[1:-1])], 200),
        ([("If-None-Match", '"a"'), ("If-Modified-Since", FUTURE)], 200),
        ([("If-Modified-Since", FUTURE)], 304),
        ([("If-Modified-Since", OLD)], 200),
        ([("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")], 200),
        ([("If-Modified-Since", "Fri Jan  1 00:00:00 2100")], 304),
        ([("If-Modified-Since", "yesterday")], 200),
        ([("If-Match", tag)], 200),
        ([("If-Match", "*")], 200),
        ([("If-Match", "W/" + tag)], 412),
        ([("If-Match", '"a"')], 412),
        ([("If-Unmodified-Since", OLD)], 412),
        ([("If-Unmodified-Since", FUTURE)], 200),
        ([("If-Match", tag), ("If-Unmodified-Since", OLD)], 200),
        ([("If-None-Match", tag), ("Range", "bytes=0-1")], 304),
    ]


@pytest.mark.parametrize("fields, status", conditions())
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_conditions(server, method, fields, status):
    server.put("/pub/conditional", BODY)
    got = server.request(method, "/pub/conditional", fields)
    assert got.status == status
    if status == 304:
        assert got.get("ETag") == etag(BODY)
        assert got.get("Content-Length") is None


def test_exact_last_modified(server):
    server.put("/pub/conditional", BODY)
    modified = server.get("/pub/conditional").get("Last-Modified")
    assert server.get("/pub/conditional", [("If-Modified-Since", modified)]).status == 304
    assert server.get("/pub/conditional", [("If-Unmodified-Since", modified)]).status == 200


@pytest.mark.parametrize("field", [("If-None-Match", "*"), ("If-Match", '"a"')])
def test_conditional_writes_are_refused(server, key, field):
    assert server.request("PUT", f"/pub/{key}", [field], b"x", auth=True).status == 501
    assert server.request("DELETE", f"/pub/{key}", [field], auth=True).status == 501


@pytest.mark.parametrize("field, status", [
    (("Content-Encoding", "gzip"), 415), (("Content-Encoding", "identity"), 200),
    (("Content-Range", "bytes 0-0/5"), 400), (("Content-Type", "x/" + "y" * 254), 400),
    (("Content-Type", "x/" + "y" * 253), 200)])
def test_fields_of_put(server, key, field, status):
    assert server.request("PUT", f"/pub/{key}", [field], b"x", auth=True).status == status
    assert server.get(f"/pub/{key}").status == (200 if status == 200 else 404)


# --- lists ---

def test_plain_list_in_pages(server):
    server.bucket("pages", public=True)
    keys = [f"{i:04d}/x y" for i in range(1005)]
    with server.connect() as c:
        for name in keys:
            c.send(make_request("PUT", "/pages/" + name.replace(" ", "%20"), [server.auth()], b""))
        for _ in keys:
            assert c.response().status == 200
    first = server.get("/pages/")
    assert first.get("Content-Type") == "text/plain; charset=utf-8"
    assert first.body.decode().splitlines() == keys[:1000]
    link = re.fullmatch(r'<(.*)>; rel="next"', first.get("Link"))[1]
    second = server.get("/pages/" + link)
    assert second.body.decode().splitlines() == keys[1000:]
    assert second.get("Link") is None
    some = server.get("/pages/?prefix=000&start-after=0003/x%20y")
    assert some.body.decode().splitlines() == keys[4:10]
    assert server.get("/pages/?prefix=nothing").body == b""
    assert server.get("/pages/?prefix=%zz").status == 400
    assert server.request("HEAD", "/pages/").get("Content-Length") == str(len(first.body))


def test_html_list(server):
    server.bucket("html", public=True)
    server.put("/html/%3Cscript%3E%22%27%26", b"x")
    server.put("/html/%FF%20b", b"yy")
    page = server.get("/html/", [("Accept", "text/html,application/xhtml+xml")])
    assert page.get("Content-Type") == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.get("Content-Security-Policy")
    assert b"<script>" not in page.body
    assert b"&lt;script&gt;&quot;&#39;&amp;" in page.body
    links = re.findall(rb'<a href="(/html/[^"]*)"', page.body)
    assert len(links) == 2
    assert [server.get(link.decode()).body for link in links] == [b"x", b"yy"]


def test_html_list_links_to_more(server):
    server.bucket("more", public=True)
    with server.connect() as c:
        for i in range(1001):
            c.send(make_request("PUT", f"/more/%26{i:04d}", [server.auth()], b""))
        for _ in range(1001):
            assert c.response().status == 200
    page = server.get("/more/", [("Accept", "text/html")])
    more = re.search(rb'<a rel="next" href="([^"]*)"', page.body)[1]
    last = server.get("/more/" + more.decode().replace("&amp;", "&"), [("Accept", "text/html")])
    assert last.body.count(b"<tr><td>") == 1 and b"&amp;1000" in last.body
