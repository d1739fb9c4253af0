"""Short options behind which known tools take a secret (`mysql -pPASSWORD`, `curl -u user:PASSWORD`).

A table and two guesses: behind a bare `-p` of an unknown tool, a word of letters and digits is taken for a password, and
behind an option of any tool that ends in `auth` or `login`, what has the form of `user:secret`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .patterns import pattern
from .secret_names import word_set

# Options whose whole value is secret: as the next argument ("-a"), or written right behind the option ("-p*").
_WHOLE = {
    "mysql": "-p*", "mysqldump": "-p*", "mysqladmin": "-p*", "mariadb": "-p*", "mariadb-dump": "-p*",
    "sshpass": "-p -p*", "docker": "-p -p*", "podman": "-p -p*", "redis-cli": "-a", "mongo": "-p", "mongosh": "-p",
    "mongodump": "-p", "ldapsearch": "-w", "ldapmodify": "-w", "ldapadd": "-w", "sqlcmd": "-P", "bcp": "-P",
    "7z": "-p*", "7za": "-p*", "7zr": "-p*", "rar": "-p* -hp*", "unrar": "-p*", "unzip": "-P", "zip": "-P",
    "mosquitto_pub": "-P", "mosquitto_sub": "-P", "vncpasswd": "-p", "xfreerdp": "/p:*", "ipmitool": "-P",
    "rabbitmqadmin": "-p", "influx": "-p", "cqlsh": "-p", "smbmap": "-p",
    "crackmapexec": "-p", "az": "-p", "oc": "-p", "cf": "-p", "snmpwalk": "-A -X -c",
    "snmpget": "-A -X -c", "openssl": "-k -K",
}  # fmt: skip
# Options whose value is `user:secret` or `user%secret`.
_LOGIN = {
    "curl": "-u --user -U --proxy-user",
    "http": "-a --auth",
    "https": "-a --auth",
    "smbclient": "-U --user",
}
_SLASHED = frozenset(("sqlplus", "rman", "expdp", "impdp", "exp", "imp", "sqlldr"))
"""Tools whose first word may be `user/secret@database`."""
_SETTERS = frozenset(("set", "config", "configure", "config:set"))
_LOGIN |= {
    "ab": "-A -P",
    "rpcclient": "-U --user",
    "net": "-U --user",
    "xh": "-a --auth",
    "lftp": "-u --user",
}
_ANY_LOGIN = pattern(r"--?(?:\w+-)*(?:auth|login|userpwd)")
"""Options that no tool means otherwise; `--user` may be a user and a group."""
# Tools that mean something else by -p: no guess there.
_OTHER_P = word_set(
    "mkdir cp ssh scp sftp nmap pytest py.test tar make install rsync python python3 ps netstat lsof ss kill pgrep psql "
    "pg_dump pg_restore createdb perl ruby node git cargo npm date nc telnet time uniq fdisk parted docker-compose tsc "
    "gcc cc patch sed grep bash sh zsh read lp lpr cups ping traceroute su runuser rg tee chrome firefox gdb strace perf "
    "ftp rclone snmptrap java flask uvicorn gunicorn hugo jekyll php ng vite webpack prettier eslint mocha jest which "
    "type valgrind go dotnet kubectl terraform ansible-playbook bc gzip zstd unshare virsh qemu screen tmux"
)
_KNOWN = frozenset(_WHOLE) | frozenset(_LOGIN) | _SLASHED | _OTHER_P
_TOOL_IN_TEXT = pattern(
    r"(?<![\w.-])(?:"
    + "|".join(sorted(map(re.escape, frozenset(_WHOLE) | frozenset(_LOGIN)), reverse=True))
    + r")(?![\w.-])"
)
_BEHIND_USER = pattern("[:%,]")
_LIKE_LOGIN = pattern(r"[^\s:/%,]+[:%](?!//|\d{1,5}$)\S+")
_LIKE_PASSWORD = pattern(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[^\s/.,:=\\@-]{6,64}")


def tool_named(text: str, *, whole: bool = False) -> str:
    """The known tool that `text` is (`whole`, a path allowed) or, in a longer text, holds; empty for none."""
    if whole:
        name = text.rpartition("/")[2]
        return name if name in _KNOWN else ""
    found = _TOOL_IN_TEXT.search(text)
    return found[0] if found else ""


def tool_secret(tool: str, before: str, item: str, *, known_only: bool = False) -> tuple[int, int] | None:
    """Where in `item`, which stands behind `before`, `tool` takes a secret."""
    if tool in _SLASHED and (found := re.fullmatch(r"(\w+/)([^@/\s]+)(?:@\S*)?", item)):
        return None if _is_reference(found[2]) else found.span(2)
    start = _login(tool, before, item)
    if start is None:
        start = _whole(tool, before, item)
    if (
        start is None
        and before == "-p"
        and tool not in _KNOWN
        and not known_only
        and _LIKE_PASSWORD.fullmatch(item)
    ):
        start = 0
    if start is None or _is_reference(item[start:]):
        return None
    return start, len(item)


def is_set(argv: Sequence[str], at: int) -> bool:
    """Is this the value of a setting (`aws configure set NAME VALUE`), and not a word of some helper's name?"""
    value = argv[at]
    names_nothing = (
        value.startswith("-") or argv[at - 1].startswith("-") or not re.fullmatch(r"\S{8,}", value)
    )
    return not names_nothing and any(map(str.isdigit, value)) and not _SETTERS.isdisjoint(argv[1 : at - 1])


def _whole(tool: str, before: str, item: str) -> int | None:
    for option in _WHOLE.get(tool, "").split():
        bare = option.removesuffix("*")
        start = len(bare) if option != bare and item.startswith(bare) else 0 if before == option else None
        if start is not None and len(item) > start and not _is_port(tool, item[start:]):
            return start
    return None


def _is_port(tool: str, text: str) -> bool:
    """`docker run -p 8080:80` publishes a port, `docker login -p …` takes a password."""
    return tool in ("docker", "podman") and bool(re.fullmatch(r"[\d.:-]+(?:/\w+)?", text))


def _login(tool: str, before: str, item: str) -> int | None:
    """Where the secret of `user:secret` begins, behind the option or written together with it."""
    start = _guessed_login(before, item)
    for option in _LOGIN.get(tool, "").split():
        joined = option if len(option) == 2 else f"{option}="
        if before == option:
            start = 0
        elif item.startswith(joined) and len(item) > len(joined):
            start = len(joined)
    found = _BEHIND_USER.search(item, start) if start is not None else None
    return found.end() if found else None


def _guessed_login(before: str, item: str) -> int | None:
    """Where `user:secret` begins behind `--auth` of any tool; no reference, no address (`h:22`) and no URL."""
    option, equals, value = item.partition("=")
    behind = _ANY_LOGIN.fullmatch(before) is not None
    if not behind:
        if not equals or not _ANY_LOGIN.fullmatch(option):
            return None
        item = value
    if _is_reference(item) or not _LIKE_LOGIN.fullmatch(item):
        return None
    return 0 if behind else len(option) + 1


def _is_reference(text: str) -> bool:
    return not text or bool(re.fullmatch(r"\*+|env:\w+|file:[/~].*|\$\{?\w+\}?", text))
