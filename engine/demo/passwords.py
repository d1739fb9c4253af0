"""Looks for the passwords of the demo's proxies, in any of their spellings, in every file that a demo leaves.

The standard library alone. Reads; changes nothing, and never says what it found, only where.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from . import plan

BLOCK = 1 << 20
SHORTEST = 6
"""Characters of the shortest spelling that is looked for: anything shorter stands everywhere."""

Spellings = Mapping[str, list[bytes]]


class Passwords:
    """One search."""

    def __init__(self, database: Path, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._hidden = folder / plan.SECRETS

    def check(self) -> list[str]:
        """Each file in which a password stands, and each that can't be searched."""
        problems: list[str] = []
        spellings = {name: list(_spellings(password, user)) for name, user, password in self._passwords()}
        for path in sorted(self._files()):
            try:
                names = _found(path, spellings)
            except OSError as error:
                problems.append(f"{path}: it can't be searched for passwords: {error.strerror}")
                continue
            problems += [f"{path}: the password of {name} stands in it" for name in sorted(names)]
        return problems

    def _files(self) -> set[Path]:
        files = {
            path for path in self._folder.rglob("*") if path.is_file() and self._hidden not in path.parents
        }
        beside = self._database.parent.glob(f"{self._database.name}*")
        return files | {path for path in beside if path.is_file()}

    def _passwords(self) -> Iterator[tuple[str, str, str]]:
        """Route, user and password of each file of secrets; an empty one hides nothing."""
        users = self._users()
        for file in sorted(self._hidden.glob("*")) if self._hidden.is_dir() else ():
            try:
                password = file.read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue
            if password:
                yield file.name, users.get(file.name, ""), password

    def _users(self) -> dict[str, str]:
        """Who logs in, by file of secrets; nobody where the note of it is damaged."""
        try:
            proxies = json.loads((self._folder / plan.WORLD_FILE).read_text(encoding="utf-8"))["proxies"]
            return {
                Path(each["password_file"]).name: str(each.get("username") or "")
                for each in proxies
                if each.get("password_file")
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return {}


def _spellings(password: str, user: str) -> Iterator[bytes]:
    """Plainly, percent-encoded, in hex, in Base64 wherever it begins, and as a proxy is sent it."""
    raw = password.encode()
    found = {raw, quote(password, safe="").encode(), json.dumps(password)[1:-1].encode()}
    found |= {raw.hex().encode(), raw.hex().upper().encode()}
    for encoded in (*_base64(raw), base64.b64encode(f"{user}:{password}".encode()) if user else b""):
        found |= {encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}
    return (each for each in found if len(each) >= min(SHORTEST, len(raw)))


def _base64(raw: bytes) -> Iterator[bytes]:
    """What its own characters come to, behind none, one or two others."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw)
        first = -(-before * 8 // 6)
        yield whole[first : (before + len(raw)) * 8 // 6]


def _found(path: Path, spellings: Spellings) -> set[str]:
    longest = max((len(each) for many in spellings.values() for each in many), default=0)
    found: set[str] = set()
    rest = b""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            window = rest + block
            found |= {name for name, many in spellings.items() if any(each in window for each in many)}
            rest = window[-longest:] if longest else b""
    return found
