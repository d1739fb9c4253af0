"""Lists of proxies as people have them, read into routes: one line, one meaning, or a fault with its line number.

Pure. Formats (routes.md 4.8): URLs; `host:port`, with the login before or behind it, joined by `@` or `:`; CSV with a header;
a JSON list; JSON lines. Only what has a scheme is percent-decoded. No fault repeats any part of a line, since a password may
stand anywhere in it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .patterns import pattern
from .route_urls import BadRouteUrl, RouteUrl, login_fault, parse_route_url

COLUMNS = ("scheme", "host", "port", "username", "password", "region", "labels", "capacity", "group", "id")
"""What a header of CSV, or the keys of a JSON object, may name; JSON may say `url` instead of the first five."""

LARGEST = 16 * 2**20
"""Bytes of a list."""

_COMMENT = pattern(r"\s*(#|//|;|$)")
_INLINE = pattern(r"\s+#\s*(.*)$")
_HEADER = pattern(r"[A-Za-z_ ]+(,[A-Za-z_ ]+)+")
_IPV6 = pattern(r"[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,}")


class ImportedRoute(NamedTuple):
    """One route of a list, from line `line` (JSON lists: item). `label` is what stood behind `#`.

    What the list leaves out is empty or None.
    """

    line: int
    url: RouteUrl
    label: str = ""
    regions: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    capacity: int | None = None
    group: str | None = None
    id: str | None = None

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """What makes two lines the same exit: another user name on the same host and port is another exit."""
        return self.url[:4]


class ImportFault(NamedTuple):
    """Why a line is no route. `code` is stable."""

    line: int
    code: str
    what: str
    remedy: str


class ImportedList(NamedTuple):
    """What a list holds. `duplicates`: line → the line that said the same exit before."""

    routes: tuple[ImportedRoute, ...]
    faults: tuple[ImportFault, ...]
    duplicates: Mapping[int, int]


def read_list(raw: bytes, scheme: str = "http") -> ImportedList:
    """All routes of a list and all its faults. `scheme` is that of lines that name none."""
    text, fault = _text(raw)
    if fault:
        return ImportedList((), (fault,), {})
    routes: list[ImportedRoute] = []
    faults: list[ImportFault] = []
    first: dict[tuple[str, str, int, str], int] = {}
    duplicates: dict[int, int] = {}
    for found in _entries(text, scheme):
        if isinstance(found, ImportFault):
            faults.append(found)
        elif found.identity in first:
            duplicates[found.line] = first[found.identity]
        else:
            first[found.identity] = found.line
            routes.append(found)
    return ImportedList(tuple(routes), tuple(faults), duplicates)


def _text(raw: bytes) -> tuple[str, ImportFault | None]:
    if len(raw) > LARGEST:
        what = f"it is larger than {LARGEST >> 20} MiB"
        return "", ImportFault(0, "E_TOO_LARGE", what, "import it in parts")
    try:
        return raw.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return "", ImportFault(line, "E_ENCODING", "it is not UTF-8", "save the list in UTF-8")


def _entries(text: str, scheme: str) -> Iterator[ImportedRoute | ImportFault]:
    lines = text.splitlines()
    begin = next((line.strip() for line in lines if not _COMMENT.match(line)), "")
    if begin.startswith("[") and not re.match(r"\[[0-9A-Fa-f:.]+\]:", begin):
        yield from _json_list(text, scheme)
    elif begin.startswith("{"):
        yield from _json_lines(lines, scheme)
    elif _HEADER.fullmatch(begin):
        yield from _csv(lines, scheme)
    else:
        yield from _plain(lines, scheme)


# --- lines -------------------------------------------------------------------------------------------------------


def _plain(lines: list[str], scheme: str) -> Iterator[ImportedRoute | ImportFault]:
    for number, line in enumerate(lines, 1):
        if _COMMENT.match(line):
            continue
        behind = _INLINE.search(line)
        label = behind[1].strip() if behind else ""
        try:
            url = parse_line(_INLINE.sub("", line).strip(), scheme)
            yield ImportedRoute(number, url, label)
        except BadRouteUrl as bad:
            yield ImportFault(number, bad.code, bad.what, bad.remedy)


def parse_line(text: str, scheme: str = "http") -> RouteUrl:
    """One line without comment. Raises `BadRouteUrl`, also with the code E_AMBIGUOUS."""
    if "://" in text:
        url = parse_route_url(text)
    elif "@" in text:
        url = _joined_by_at(text, scheme)
    else:
        url = _joined_by_colons(text, scheme)
    if fault := login_fault(url.scheme, url.username, url.password is not None):
        raise BadRouteUrl("E_LOGIN", fault, "correct the login or the scheme")
    return url


def _joined_by_at(text: str, scheme: str) -> RouteUrl:
    """`user:pass@host:port`, or the other way round."""
    login, _, place = text.rpartition("@")
    usual = _place(place, scheme)
    first, _, rest = text.partition("@")
    swapped = _place(first, scheme)
    if usual and swapped and _is_plain_name(usual) and not _is_plain_name(swapped):
        usual = None  # 192.0.2.1:8080@bob:1234
    if usual and swapped and not _is_plain_name(usual) and not _is_plain_name(swapped):
        raise _ambiguous()
    if usual:
        return _with_login(usual, login)
    if swapped:
        return _with_login(swapped, rest)
    return parse_route_url(f"{scheme}://{place}")  # which says what is wrong with the address


def _joined_by_colons(text: str, scheme: str) -> RouteUrl:
    """`host:port`, `host:port:user:pass`, `user:pass:host:port`."""
    bracketed = re.match(r"(\[[^\]]*\](?::[^:]*)?)(?::(.*))?$", text)
    if bracketed:
        return _with_login(parse_route_url(f"{scheme}://{bracketed[1]}"), bracketed[2])
    parts = text.split(":")
    if len(parts) < 3 or _is_bare_ipv6(text):
        return parse_route_url(f"{scheme}://{text}")
    front, back = _place(":".join(parts[:2]), scheme), _place(":".join(parts[-2:]), scheme)
    if len(parts) == 3:
        back = None  # a name without a password stands behind
    if front and back:
        if _is_plain_name(front) == _is_plain_name(back):
            raise _ambiguous()
        front, back = (None, back) if _is_plain_name(front) else (front, None)
    if front:
        return _with_login(front, ":".join(parts[2:]))
    if back:
        return _with_login(back, ":".join(parts[:-2]))
    return parse_route_url(f"{scheme}://{':'.join(parts[:2])}")


def _is_bare_ipv6(text: str) -> bool:
    return bool(_IPV6.fullmatch(text)) and ("::" in text or text.count(":") > 5)


def _is_plain_name(url: RouteUrl) -> bool:
    """`bob:1234` may be a host and its port or a user and a password: a place has a dot, a colon, or is localhost."""
    return "." not in url.host and ":" not in url.host and url.host != "localhost"


def _place(text: str, scheme: str) -> RouteUrl | None:
    """`host:port` as an address, if it can be one."""
    try:
        return parse_route_url(f"{scheme}://{text}")
    except BadRouteUrl:
        return None


def _with_login(place: RouteUrl, login: str | None) -> RouteUrl:
    """As it stands: nothing is percent-decoded where no scheme says that it is a URL."""
    if not login:
        return place
    username, colon, password = login.partition(":")
    return place._replace(username=username, password=password if colon else None)


def _ambiguous() -> BadRouteUrl:
    what = "either half could be the address"
    return BadRouteUrl("E_AMBIGUOUS", what, 'write "http://user:password@host:port"')


# --- tables ------------------------------------------------------------------------------------------------------


def _csv(lines: list[str], scheme: str) -> Iterator[ImportedRoute | ImportFault]:
    names: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if _COMMENT.match(line):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if names is None:
            names = [cell.lower() for cell in cells]
            if fault := _header_fault(number, names):
                yield fault
                return
        elif len(cells) > len(names):
            what = f"{len(cells)} cells stand under {len(names)} columns"
            yield ImportFault(number, "E_COLUMNS", what, "quote what holds a comma")
        else:
            yield _from_table(number, dict(zip(names, cells, strict=False)), scheme)


def _header_fault(number: int, names: list[str]) -> ImportFault | None:
    known = f"use {', '.join(COLUMNS)}"
    if any(name not in COLUMNS for name in names):
        return ImportFault(number, "E_HEADER", "the first line names a column that is not known", known)
    if len(set(names)) != len(names):
        return ImportFault(number, "E_HEADER", "the first line names a column twice", known)
    if not {"host", "port"} <= set(names):
        return ImportFault(number, "E_HEADER", "the first line does not name host and port", known)
    return None


def _json_list(text: str, scheme: str) -> Iterator[ImportedRoute | ImportFault]:
    try:
        items = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        yield ImportFault(line, "E_JSON", "it is no JSON list", "write a list of texts or of objects")
        return
    for number, item in enumerate(items, 1):
        yield _from_json(number, item, scheme)


def _json_lines(lines: list[str], scheme: str) -> Iterator[ImportedRoute | ImportFault]:
    for number, line in enumerate(lines, 1):
        if _COMMENT.match(line):
            continue
        try:
            yield _from_json(number, json.loads(line), scheme)
        except (json.JSONDecodeError, RecursionError):
            yield ImportFault(number, "E_JSON", "the line is no JSON", "write one object a line")


def _from_json(number: int, item: Any, scheme: str) -> ImportedRoute | ImportFault:
    if isinstance(item, str):
        try:
            return ImportedRoute(number, parse_line(item.strip(), scheme))
        except BadRouteUrl as bad:
            return ImportFault(number, bad.code, bad.what, bad.remedy)
    if not isinstance(item, dict):
        return ImportFault(number, "E_JSON", "it is neither a text nor an object", "write one of the two")
    return _from_table(number, item, scheme)


def _from_table(number: int, cells: Mapping[str, Any], scheme: str) -> ImportedRoute | ImportFault:
    known = {*COLUMNS, "url"}
    if any(name not in known for name in cells):
        return ImportFault(number, "E_KEY", "a key is not known", f"use {', '.join(COLUMNS)}, or url")
    try:
        return ImportedRoute(
            number,
            _address(cells, scheme),
            regions=_words(cells.get("region")),
            labels=_labels(cells.get("labels")),
            capacity=_capacity(cells.get("capacity")),
            group=_name(cells, "group"),
            id=_name(cells, "id"),
        )
    except BadRouteUrl as bad:
        return ImportFault(number, bad.code, bad.what, bad.remedy)


def _address(cells: Mapping[str, Any], scheme: str) -> RouteUrl:
    if cells.get("url"):
        return parse_line(str(cells["url"]).strip(), scheme)
    host, port = str(cells.get("host") or ""), str(cells.get("port") or "")
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    url = parse_route_url(f"{str(cells.get('scheme') or scheme).lower()}://{place}:{port}")
    username, password = str(cells.get("username") or ""), cells.get("password") or None
    if fault := login_fault(url.scheme, username, password is not None):
        raise BadRouteUrl("E_LOGIN", fault, "correct the login or the scheme")
    return url._replace(username=username, password=None if password is None else str(password))


def _words(value: Any) -> tuple[str, ...]:
    """Codes, as a list or as a text with spaces, `|` or `;` between them."""
    items = value if isinstance(value, list) else re.split(r"[\s|;]+", str(value or ""))
    return tuple(str(item).upper() for item in items if item)


def _labels(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(each) for name, each in value.items()}
    labels = {}
    for word in re.split(r"[|;]\s*", str(value or "")):
        name, equals, text = word.partition("=")
        if word and not (equals and name.strip()):
            raise BadRouteUrl("E_LABELS", "a label has no value", "write name=value; name=value")
        if word:
            labels[name.strip()] = text.strip()
    return labels


def _capacity(value: Any) -> int | None:
    if value in (None, ""):
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,4}", str(value)) or not 0 < int(value) <= 1000:
        raise BadRouteUrl("E_CAPACITY", "the capacity is not a number 1..1000", "write how many may use it")
    return int(value)


def _name(cells: Mapping[str, Any], key: str) -> str | None:
    value = cells.get(key)
    return str(value).strip() or None if value is not None else None
