"""Lists of proxies as people have them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.route_import import ImportedRoute, parse_line, read_list
from taskdeck.engine.rules.route_urls import BadRouteUrl, RouteUrl


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080)),
        ("1.2.3.4:8080:bob:s3:cr:et", RouteUrl("http", "1.2.3.4", 8080, "bob", "s3:cr:et")),
        ("bob:p@ss:w@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "bob", "p@ss:w")),
        (
            "brd-customer-x-zone-y:pw:proxy.example.net:22225",
            RouteUrl("http", "proxy.example.net", 22225, "brd-customer-x-zone-y", "pw"),
        ),
        (
            "socks5://bob:p%40%3A@h.example.net:1080",
            RouteUrl("socks5", "h.example.net", 1080, "bob", "p@:"),
        ),
        ("[2001:db8::1]:1080:bob:pw", RouteUrl("http", "2001:db8::1", 1080, "bob", "pw")),
        ("bob:pw@[2001:db8::1]:1080", RouteUrl("http", "2001:db8::1", 1080, "bob", "pw")),
        ("[2001:db8::1]:1080", RouteUrl("http", "2001:db8::1", 1080)),
        ("1.2.3.4:8080@bob:pw", RouteUrl("http", "1.2.3.4", 8080, "bob", "pw")),
        ("1.2.3.4:8080@bob:1234", RouteUrl("http", "1.2.3.4", 8080, "bob", "1234")),
        ("bob:1234@proxy:8080", RouteUrl("http", "proxy", 8080, "bob", "1234")),
        ("bob:1234@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "bob", "1234")),
        ("bob:1234:1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "bob", "1234")),
        ("localhost:8080:bob:99", RouteUrl("http", "localhost", 8080, "bob", "99")),
        ("1.2.3.4:8080:abc:def", RouteUrl("http", "1.2.3.4", 8080, "abc", "def")),
        ("bob:p%40@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "bob", "p%40")),
        ("bob:a,b@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "bob", "a,b")),
        ("1.2.3.4:8080:bob", RouteUrl("http", "1.2.3.4", 8080, "bob", None)),
        ("http://:p%40%3A@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "", "p@:")),
        (":p@:w@1.2.3.4:8080", RouteUrl("http", "1.2.3.4", 8080, "", "p@:w")),
        ("1.2.3.4:8080::pw", RouteUrl("http", "1.2.3.4", 8080, "", "pw")),
    ],
)
def test_each_spelling_has_one_meaning(line: str, url: RouteUrl) -> None:
    assert parse_line(line) == url
    assert read_list(line.encode()).routes[0].url == url


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("2001:db8::1:1080", "E_IPV6_BRACKETS"),
        ("1.2.3.4", "E_PORT_MISSING"),
        ("http://1.2.3.4", "E_PORT_MISSING"),
        ("1.2.3.4:0", "E_HOSTPORT"),
        ("1.2.3.4:99999", "E_HOSTPORT"),
        ("999.1.1.1:80", "E_HOSTPORT"),
        ("ftp://1.2.3.4:21", "E_SCHEME"),
        ("1.2.3.4:80:5.6.7.8:81", "E_AMBIGUOUS"),
        ("1.2.3.4:80@5.6.7.8:81", "E_AMBIGUOUS"),
        ("bob:1234:proxy:8080", "E_AMBIGUOUS"),
        ("bob:pw", "E_HOSTPORT"),
        ("socks4://bob:pw@1.2.3.4:1080", "E_LOGIN"),
        ("socks5://bob@1.2.3.4:1080", "E_LOGIN"),
        ("socks5://:pw@1.2.3.4:1080", "E_LOGIN"),
        ("http://@1.2.3.4:80", "E_LOGIN"),
    ],
)
def test_what_is_unclear_is_refused_with_its_code(line: str, code: str) -> None:
    with pytest.raises(BadRouteUrl) as refused:
        parse_line(line)
    assert refused.value.code == code


def test_a_list_may_hold_comments_labels_a_mark_of_order_and_any_ends_of_lines() -> None:
    text = (
        "\ufeff# mine\r\n// more\r\n; and more\r\n\r\n1.2.3.4:80 #fast one\r\nsocks5://h.example.net:1080\r\n"
    )
    found = read_list(text.encode())
    assert found.routes == (
        ImportedRoute(5, RouteUrl("http", "1.2.3.4", 80), "fast one"),
        ImportedRoute(6, RouteUrl("socks5", "h.example.net", 1080)),
    )
    assert not found.faults


def test_every_fault_has_its_line_and_the_rest_is_read() -> None:
    found = read_list(b"1.2.3.4:80\n1.2.3.4\nftp://x.example:1\n5.6.7.8:81\n")
    assert [route.line for route in found.routes] == [1, 4]
    assert [(fault.line, fault.code) for fault in found.faults] == [(2, "E_PORT_MISSING"), (3, "E_SCHEME")]


def test_another_user_on_the_same_place_is_another_exit_and_the_same_one_a_duplicate() -> None:
    found = read_list(b"1.2.3.4:80:bob:x\n1.2.3.4:80:ann:x\n1.2.3.4:80:bob:y\n")
    assert [route.url.username for route in found.routes] == ["bob", "ann"]
    assert found.duplicates == {3: 1}


def test_csv_takes_its_columns_in_any_order() -> None:
    text = (
        "port,host,password,username,scheme,region,labels,capacity\n"
        '1080,h.example.net,"a,b",bob,socks5,de|AT,city=Berlin; tier=1,4\n'
        "81,2001:db8::1,,,,,,\n"
    )
    first, second = read_list(text.encode()).routes
    assert first.url == RouteUrl("socks5", "h.example.net", 1080, "bob", "a,b")
    assert (first.regions, first.labels, first.capacity) == (
        ("DE", "AT"),
        {"city": "Berlin", "tier": "1"},
        4,
    )
    assert second.url == RouteUrl("http", "2001:db8::1", 81)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("host,port,colour\n1.2.3.4,80,red\n", "E_HEADER", 1),
        ("host,host,port\n", "E_HEADER", 1),
        ("host,username\n", "E_HEADER", 1),
        ("host,port\n1.2.3.4,80,more\n", "E_COLUMNS", 2),
        ("host,port,capacity\n1.2.3.4,80,0\n", "E_CAPACITY", 2),
        ("host,port,labels\n1.2.3.4,80,city\n", "E_LABELS", 2),
        ("host,port,username\n1.2.3.4,,bob\n", "E_PORT_MISSING", 2),
        ("[1, 2", "E_JSON", 1),
        ("[1]", "E_JSON", 1),
        ('{"host": "1.2.3.4"\n', "E_JSON", 1),
        ('{"host": "1.2.3.4", "port": 80, "color": "red"}', "E_KEY", 1),
    ],
)
def test_tables_are_refused_with_the_line_and_a_code(text: str, code: str, line: int) -> None:
    (fault,) = read_list(text.encode()).faults
    assert (fault.code, fault.line) == (code, line)


def test_json_comes_as_a_list_of_texts_or_objects_or_as_lines() -> None:
    whole = [
        "1.2.3.4:80:bob:x",
        {"host": "5.6.7.8", "port": 81, "capacity": 2},
        {"url": "socks5://9.9.9.9:1080"},
    ]
    listed = read_list(json.dumps(whole).encode()).routes
    assert [route.url.port for route in listed] == [80, 81, 1080]
    lines = "\n".join(json.dumps(item) for item in whole[1:])
    assert [route.capacity for route in read_list(lines.encode()).routes] == [2, None]


def test_a_list_that_is_not_utf_8_is_refused_with_its_line() -> None:
    (fault,) = read_list(b"1.2.3.4:80\n\xff\xfe\n").faults
    assert (fault.code, fault.line) == ("E_ENCODING", 2)


SECRET = "hunter2secret"


@given(st.text(alphabet=":@/[]#%., ab1", max_size=30), st.text(alphabet=":@/[]#%., ab1", max_size=30))
def test_no_fault_repeats_what_stood_in_the_line(before: str, behind: str) -> None:
    found = read_list(f"{before}{SECRET}{behind}".encode())
    assert all(SECRET not in fault.what + fault.remedy + fault.code for fault in found.faults)
    assert len(found.routes) + len(found.faults) + len(found.duplicates) <= 1


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    found = read_list(raw)
    assert all(fault.code.startswith("E_") for fault in found.faults)


@given(
    st.sampled_from(["1.2.3.4", "proxy.example.net", "[2001:db8::7]"]),
    st.integers(1, 65535),
    st.text(alphabet="abcXYZ-_", min_size=1, max_size=12),
    st.text(alphabet="abcXYZ019:@!$%", min_size=1, max_size=12),
)
def test_a_login_in_front_of_an_address_is_read_back_whole(
    host: str, port: int, user: str, password: str
) -> None:
    url = parse_line(f"{user}:{password}@{host}:{port}")
    assert (url.host, url.port) == (host.strip("[]"), port)
    assert (url.username, url.password) == (user, password)
