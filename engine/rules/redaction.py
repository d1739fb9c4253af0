"""The one place where secrets are taken out of texts, values and command lines, and where they are found to be refused.

Works on names (`password`), on shapes (tokens, logins in URLs, private keys: `secret_shapes`) and on the
configured values in every usual encoding. Limits: a configured value under 4 characters can't be masked by
value, and neither can one that a program splits other than by line breaks (indented ones too) or encodes twice. Rules decide
here; nothing is logged or stored.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from .cleaning import clean
from .patterns import pattern
from .secret_names import Names, is_directory, word_set
from .secret_shapes import HOOK, SIGNS, TOKEN_SIGNS, Span, shapes
from .tool_options import is_set, tool_named, tool_secret

__all__ = ["MASK", "Finding", "Redactor", "clean", "find_secrets"]

MASK = "***"
SHORTEST = 4
"""A configured value of fewer characters is not masked by value: it would blot out half of every text."""
DEEPEST = 100
SHORT, MOST_CLEAN = 64, 4096
"""Characters of a text of which is remembered that it holds no secret, and how many such texts are."""

_SIGNS = tuple(sorted(word_set("pass pw secret token key auth cred cookie jwt bearer psk pat otp 密 口令")))
"""One of them is in each name of a secret. Looked for one by one: a pattern of all of them takes ten times as long."""
_EACH_SIGN = tuple(sorted({*_SIGNS, *SIGNS}))
"""Of names and of shapes. `PRIVATE KEY` has one of a name."""
_NAME = pattern(
    r"(?<![A-Za-z0-9_.$-])(?P<dashes>-{0,2})(?P<name>[A-Za-z_密口][A-Za-z0-9_.码令钥-]{0,80})"
    r"(?P<between>\\{0,4}[\"']?\]?[ \t]{0,4}(?::=|=>|[:=：])(?:[ \t]{0,4}[|>][+-]?[ \t]{0,4}\r?\n)?[ \t]{0,16}"
    r"|[ \t]{1,4}(?:\\\r?\n[ \t]{0,16})?|>)"
)
_VALUE = pattern(
    r"\\{1,4}\"(?P<escaped>.{0,4096}?)\\{1,4}\"|\"(?P<double>(?:[^\"\\]|\\.){0,4096})\"?|'(?P<single>[^']{0,4096})'?"
    r"|(?P<plain>\$\{[^}\s]{0,80}\}|[^\s,;&\"'<>()\[\]{}\\]{1,4096})",
    re.DOTALL,
)
_NO_SECRET = pattern(
    r"\*+|null|none|nil|true|false|yes|no|on|off|undefined|<[^>]*>|\$\{?\w+\}?|\$(?:\(.*)?|%\w+%|\{\{.*|x{3,}|\.{3}|…"
    r"|env:\w+|file:[/~].*|cred:.*|cmd:.*|op://.*|age:.*|\[?redacted\]?|--[A-Za-z][\w-]*|-[A-Za-z]",
    re.IGNORECASE | re.DOTALL,
)
_PROSE = word_set(
    "a an and are as at be but by can cannot for from has have if in invalid is it its must may missing needs not of "
    "option options flag argument on or required requires set shall should that the then this to use used value was "
    "were when which will with wrong you your expired failed incorrect rejected given twice again here unknown "
    "accepted denied permission empty absent revoked refreshed received found ok bearer basic digest negotiate apikey token"
)


class Finding(NamedTuple):
    """A secret that was found: where (`argument 3`, `$.headers.token`) and by which rule. Never the secret itself."""

    where: str
    rule: str


class Redactor:
    """Masks secrets. `secrets` are configured values, `names` further names that mean a secret."""

    def __init__(self, secrets: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        self._names = Names(names)
        self._forms: list[str] = []
        self._clean: set[str] = set()
        """Short texts in which nothing was found: names and states, which come again and again. Never one with a secret."""
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: str) -> None:
        """Mask this value too from now on. Any thread may call it while others mask."""
        if new := forms_of(secret).difference(self._forms):
            self._forms = sorted(new.union(self._forms), key=len, reverse=True)
            self._clean = set()  # who masks with the forms of before goes on with the set of before

    def known(self, text: str) -> str:
        """`text` with `***` for the values that are known, and nothing else."""
        return _masked(text, list(self._configured(text))) if self._forms else text

    def text(self, text: str) -> str:
        """`text` with `***` for each secret."""
        if len(text) > SHORT:
            return _masked(text, self._spans(text))
        clean = self._clean
        if text in clean:
            return text
        spans = self._spans(text)
        if spans:
            return _masked(text, spans)
        if len(clean) >= MOST_CLEAN:
            clean.clear()
        clean.add(text)
        return text

    def argv(self, argv: Sequence[str]) -> list[str]:
        """A command line with its secrets masked, each argument seen together with those before it."""
        return [_masked(item, spans) for item, spans in zip(argv, self._argument_spans(argv), strict=True)]

    def value(self, value: Any) -> Any:
        """A JSON value with its secrets masked, by the names of its keys and by its texts. The argument is not changed."""
        return self._value(value, DEEPEST)

    def find(self, value: Any) -> list[Finding]:
        """The secrets in a command line (a list of texts) or any JSON value."""
        return list(self._findings(value, "$", DEEPEST))

    def surely_clean(self, text: str) -> bool:
        """Whether `find` certainly finds nothing in the value of this compact JSON text, told by the text alone.

        What `find` goes by stands in the text as it is where nothing is escaped. False also where that can't be told.
        """
        if self._names.has_own or "\\" in text or '["' in text or " -" in text or TOKEN_SIGNS.search(text):
            return False
        if "://" in text and ("@" in text or "=" in text or HOOK.search(text)):
            return False
        lower = text.lower()
        for sign in _EACH_SIGN:
            if sign in lower:
                return False
        return not any(form in text for form in self._forms)

    def _spans(self, text: str) -> list[Span]:
        spans = [span for span in shapes(text) if not _NO_SECRET.fullmatch(text, span.start, span.end)]
        spans += self._configured(text)
        if self._names.has_own or _is_any_in(text.lower()):
            spans += self._named(text)
        if " -" in text and tool_named(text):
            spans += _by_tools(text)
        return spans

    def _configured(self, text: str) -> Iterator[Span]:
        """Places of the configured values; a line break inside one doesn't hide it."""
        for start, end in _places(text, self._forms):
            yield Span(start, end, "configured secret")
        for broken in (_BREAK, _WRAP) if self._forms and "\n" in text else ():
            kept, joined = _joined(text, broken)
            for start, end in _places(joined, self._forms):
                yield Span(kept[start], kept[end - 1] + 1, "configured secret")

    def _named(self, text: str) -> Iterator[Span]:
        """Values behind `name=`, `name:`, `--name `, `"name": ` and `<name>`."""
        for found in _NAME.finditer(text):
            name, between = found["name"], found["between"]
            by_space = not between.strip()
            if (by_space and not found["dashes"]) or name not in self._names:
                continue
            if between == ">" and text[found.start("name") - 1 : found.start("name")] != "<":
                continue
            span = _value_span(text, found.end())
            strong = self._names.is_strong(name)
            if (
                not span
                or is_directory(name, text[slice(*span)])
                or (between != "=" and _is_prose(text, *span, strong))
            ):
                continue
            if _is_secret_value(text[slice(*span)], strong):
                yield Span(*span, f"value of {name}")

    def _argument_spans(self, argv: Sequence[str]) -> list[list[Span]]:
        spans = [self._spans(item) for item in argv]
        tool = ""
        for at, item in enumerate(argv):
            before = argv[at - 1] if at else ""
            tool = tool_named(item, whole=True) or tool
            whole = Span(0, len(item), f"value of {before}")
            if (self._is_secret_option(before) and not _NO_SECRET.fullmatch(item)) or (
                at > 2 and before in self._names and is_set(argv, at) and not _NO_SECRET.fullmatch(item)
            ):
                spans[at].append(whole)
            elif place := self._assigned(item):
                spans[at].append(place)
            elif place := tool_secret(tool, before, item):
                spans[at].append(Span(*place, f"value of {tool or before}"))
        return spans

    def _is_secret_option(self, text: str) -> bool:
        return len(text) > 2 and text.startswith("-") and "=" not in text and text.lstrip("-") in self._names

    def _assigned(self, item: str) -> Span | None:
        """All behind the `=` of `--token=…` or `PASSWORD=…`: in an argument no character ends the value."""
        found = re.match(r"-{0,2}([A-Za-z_][A-Za-z0-9_.-]{0,80})=", item)
        if not found or found[1] not in self._names or _NO_SECRET.fullmatch(item, found.end()):
            return None
        value = item[found.end() :]
        is_secret = not is_directory(found[1], value) and _is_secret_value(
            value, self._names.is_strong(found[1])
        )
        return Span(found.end(), len(item), f"value of {found[1]}") if is_secret else None

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self._object(value, depth - 1) if depth else MASK
        if isinstance(value, list | tuple):
            if value and all(isinstance(item, str) for item in value):
                return self.argv(value)
            return [self._value(item, depth - 1) for item in value] if depth else MASK
        return value if value is None or isinstance(value, bool | int | float) else self.text(str(value))

    def _object(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        pair = self._secret_pair(value)
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = str(key)
            if key == pair or self._is_named(name, item):
                masked[name] = self._all_masked(item, depth, self._names.is_strong(name) or key == pair)
            else:
                masked[self.text(name)] = self._value(item, depth)
        return masked

    def _secret_pair(self, value: Mapping[Any, Any]) -> str | None:
        """`value` where the object is of the form {"name": "password", "value": …}."""
        label = value.get("name", value.get("key"))
        is_pair = "value" in value and isinstance(label, str) and self._is_named(label, value["value"])
        return "value" if is_pair else None

    def _is_named(self, name: str, value: Any) -> bool:
        return name in self._names and not is_directory(name, value)

    def _all_masked(self, value: Any, depth: int, numbers: bool) -> Any:
        """What stands below a secret's name: every text in it, and where the name is strong, every number."""
        if isinstance(value, str):
            return MASK if _is_secret_value(value, numbers) else self.text(value)
        if isinstance(value, Mapping):
            return (
                {str(key): self._all_masked(item, depth - 1, numbers) for key, item in value.items()}
                if depth
                else MASK
            )
        if isinstance(value, list | tuple):
            return [self._all_masked(item, depth - 1, numbers) for item in value] if depth else MASK
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return MASK if is_number and numbers else value

    def _findings(self, value: Any, where: str, depth: int) -> Iterator[Finding]:
        if isinstance(value, str):
            yield from (Finding(where, span.rule) for span in self._spans(value)[:1])
        elif isinstance(value, Mapping) and depth:
            yield from self._object_findings(value, where, depth - 1)
        elif isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
            for at, spans in enumerate(self._argument_spans(value)):
                place = f"argument {at + 1}" if where == "$" else f"{where}[{at}]"
                yield from (Finding(place, span.rule) for span in spans[:1])
        elif isinstance(value, list | tuple) and depth:
            for at, item in enumerate(value):
                yield from self._findings(item, f"{where}[{at}]", depth - 1)

    def _object_findings(self, value: Mapping[Any, Any], where: str, depth: int) -> Iterator[Finding]:
        pair = self._secret_pair(value)
        for key, item in value.items():
            name = str(key)
            masked = self.text(name)[:60]
            place = f"{where}.{masked}"
            yield from (Finding(f"a key of {where}", span.rule) for span in self._spans(name)[:1])
            is_secret = key == pair or self._is_named(name, item)
            if (
                is_secret
                and self._all_masked(item, depth, self._names.is_strong(name) or key == pair) != item
            ):
                yield Finding(place, f"value of {masked}")
            elif not is_secret:
                yield from self._findings(item, place, depth)


def _is_any_in(lower: str) -> bool:
    return any(sign in lower for sign in _SIGNS)


def find_secrets(value: Any, redactor: Redactor | None = None) -> list[Finding]:
    """The secrets in a command line (a list of texts) or a JSON value; with `redactor`, the configured ones too."""
    return (redactor or Redactor()).find(value)


def forms_of(secret: str) -> set[str]:
    """A secret as it may be written: plain, its long lines alone, in JSON, HTML, URLs, in base64 (at any offset)."""
    secret = secret.strip("\r\n")
    if len(secret) < SHORTEST:
        return set()
    plain = {secret, *(line for line in secret.splitlines() if len(line) >= 8)}
    forms = set(plain)
    for text in plain:
        raw = text.encode("utf-8", "surrogatepass")
        forms |= {
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            text.replace("/", "\\/"),
        }
        urls = {quote(raw, safe=safe) for safe in ("", "/", "/:=@+,")} | {quote_plus(raw)}
        forms |= urls | {re.sub("%..", lambda code: code[0].lower(), url) for url in urls}
        forms |= {repr(text)[1:-1], raw.hex(), raw.hex().upper()}
        forms |= {each for kind in ("<>&", "<>&'\"+`") for each in _escaped(json.dumps(text)[1:-1], kind)}
        marked = _as_html(text, "&<>")
        quoted = _as_html(marked, '"')
        forms |= {marked, _as_html(quoted, "'"), quoted.replace("'", "&#39;")}
        forms |= set(_base64_forms(raw))
    return {form for form in forms if len(form) >= SHORTEST}


def _base64_forms(raw: bytes) -> Iterator[str]:
    """The characters that depend on `raw` alone, wherever it stands in what was encoded."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw).decode()
        start = (0, 2, 3)[offset]
        loose = (offset + len(raw)) % 3
        end = len(encoded) - (0, 3, 2)[loose]
        for text in (encoded[start:end], encoded.rstrip("=")[start:] if not offset else ""):
            if len(text) >= 6:
                yield text
                yield text.replace("+", "-").replace("/", "_")


_BREAK = pattern(r"[\r\n]+")
_WRAP = pattern(r"[ \t]*\\?[\r\n]+[ \t]*")
"""A line that is broken: as it is, or with a backslash, and what is indented behind it."""


def _joined(text: str, broken: re.Pattern[str]) -> tuple[list[int], str]:
    """The text without its breaks, and where each character of that stood."""
    ends = [(0, 0), *(found.span() for found in broken.finditer(text)), (len(text), len(text))]
    parts = [(last, start) for (_, last), (start, _) in pairwise(ends)]
    kept = [at for start, end in parts for at in range(start, end)]
    return kept, "".join(text[start:end] for start, end in parts)


def _escaped(text: str, characters: str) -> Iterator[str]:
    """As encoders of JSON write it that mind HTML: `\\u003c`, in either case."""
    for code in ("\\u{:04x}", "\\u{:04X}"):
        yield "".join(code.format(ord(each)) if each in characters else each for each in text)


_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}


def _as_html(text: str, characters: str) -> str:
    """As `html.escape` writes these characters, `&` first; that module brings two thousand names with it."""
    for each in characters:
        text = text.replace(each, _HTML[each])
    return text


def _places(text: str, forms: Iterable[str]) -> Iterator[tuple[int, int]]:
    for form in forms:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + len(form))


def _value_span(text: str, position: int) -> tuple[int, int] | None:
    found = _VALUE.match(text, position)
    return found.span(found.lastgroup) if found and found.lastgroup else None


def _is_secret_value(value: str, strong: bool) -> bool:
    """Whether the value behind a secret's name is one: no reference, no placeholder, and for a weak name no count."""
    if not value.strip() or _NO_SECRET.fullmatch(value):
        return False
    return strong or not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", value)


def _is_prose(text: str, start: int, end: int, strong: bool) -> bool:
    """Whether the value is the next word of a sentence ("the token: handling it …"); a quoted one never is."""
    if text[start - 1 : start] in ("'", '"'):
        return False
    value = text[start:end]
    goes_on = (
        not strong
        and value.isalpha()
        and value.islower()
        and re.compile(r" [a-z]+\b(?![=:])").match(text, end)
    )
    return value.lower().rstrip(".,:;!?") in _PROSE or bool(goes_on)


def _by_tools(text: str) -> Iterator[Span]:
    """Secrets that stand behind the short options of known tools in a command that is one text."""
    tool, before = "", ""
    for word in re.finditer(r"\"(?:[^\"\\]|\\.){0,4096}\"|'[^']{0,4096}'|[^\s\"']{1,4096}", text):
        item = word[0].strip("\"'")
        shift = word.start() + (word[0][:1] in "\"'")
        tool = tool_named(item, whole=True) or tool
        if place := tool_secret(tool, before, item, known_only=True):
            yield Span(shift + place[0], shift + place[1], f"value of {tool}")
        before = item


def _masked(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    done = 0
    for start, end, _ in sorted(spans):
        if end <= done or start == end:
            continue
        if start >= done and (start > done or not parts):
            parts += [text[done:start], MASK]
        done = end
    return "".join(parts) + text[done:]
