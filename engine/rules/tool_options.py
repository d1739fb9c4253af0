"""Short options behind which known tools take a secret (`mysql -pPASSWORD`, `curl -u user:PASSWORD`).

A table and one guess: behind a bare `-p` of an unknown tool, a word of letters and digits is taken for a password.
"""

from __future__ import annotations

import re

# Options whose whole value is secret: as the next argument ("-a"), or written right behind the option ("-p*").
_WHOLE = {
    "mysql": "-p*", "mysqldump": "-p*", "mysqladmin": "-p*", "mariadb": "-p* ", "mariadb-dump": "-p*",
    "sshpass": "-p -p*", "docker": "-p -p*", "podman": "-p -p*", "redis-cli": "-a", "mongo": "-p", "mongosh": "-p",
    "mongodump": "-p", "ldapsearch": "-w", "ldapmodify": "-w", "ldapadd": "-w", "sqlcmd": "-P", "bcp": "-P",
    "7z": "-p*", "7za": "-p*", "7zr": "-p*", "rar": "-p* -hp*", "unrar": "-p*", "unzip": "-P", "zip": "-P",
    "mosquitto_pub": "-P", "mosquitto_sub": "-P", "vncpasswd": "-p", "xfreerdp": "/p:*", "ipmitool": "-P",
    "rabbitmqadmin": "-p", "influx": "-p", "svn": "", "cqlsh": "-p", "clickhouse-client": "", "smbmap": "-p",
    "crackmapexec": "-p", "sqlplus": "", "az": "-p", "helm": "", "oc": "-p", "cf": "-p", "snmpwalk": "-A -X -c",
    "snmpget": "-A -X -c",
}  # fmt: skip
# Options whose value is `user:secret` or `user%secret`.
_LOGIN = {"curl": "-u --user -U --proxy-user", "http": "-a --auth", "https": "-a --auth", "smbclient": "-U --user"}
_LOGIN |= {"wget": "", "ab": "-A -P", "rpcclient": "-U --user", "net": "-U --user", "xh": "-a --auth"}
# Tools that mean something else by -p: no guess there.
_OTHER_P = frozenset(
    """mkdir cp ssh scp sftp nmap pytest py.test tar make install rsync python python3 ps netstat lsof ss kill pgrep psql
    pg_dump pg_restore createdb perl ruby node git cargo npm date nc telnet time uniq fdisk parted docker-compose tsc
    gcc cc patch sed grep bash sh zsh read lp lpr cups ping traceroute su runuser rg tee chrome firefox gdb strace perf
    ftp rclone snmptrap java flask uvicorn gunicorn hugo jekyll php ng vite webpack prettier eslint mocha jest which type
    valgrind go dotnet kubectl terraform ansible-playbook bc gzip zstd unshare virsh qemu screen tmux""".split()  # noqa: SIM905
)
_KNOWN = frozenset(_WHOLE) | frozenset(_LOGIN) | _OTHER_P
_TOOL_IN_TEXT = re.compile(
    r"(?<![\w.-])(?:" + "|".join(sorted(map(re.escape, frozenset(_WHOLE) | frozenset(_LOGIN)), reverse=True)) + r")(?![\w.-])"
)
_LIKE_PASSWORD = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[^\s/.,:=\\@-]{6,64}")


def tool_named(text: str, *, whole: bool = False) -> str:
    """The known tool that `text` is (`whole`, a path allowed) or, in a longer text, holds; empty for none."""
    if whole:
        name = text.rpartition("/")[2]
        return name if name in _KNOWN else ""
    found = _TOOL_IN_TEXT.search(text)
    return found[0] if found else ""


def tool_secret(tool: str, before: str, item: str, *, known_only: bool = False) -> tuple[int, int] | None:
    """Where in `item`, which stands behind `before`, `tool` takes a secret."""
    if place := _login(tool, before, item):
        return place
    for option in _WHOLE.get(tool, "").split():
        if option.endswith("*"):
            start = len(option) - 1
            if item.startswith(option[:-1]) and len(item) > start and not _is_reference(item[start:]):
                return (start, len(item)) if _looks_attached(tool, item) else None
        elif before == option and not _is_reference(item):
            return 0, len(item)
    is_guess = before == "-p" and tool not in _KNOWN and not known_only and _LIKE_PASSWORD.fullmatch(item)
    return (0, len(item)) if is_guess else None


def _looks_attached(tool: str, item: str) -> bool:
    """`docker run -p8080:80` publishes a port, `docker login -pX` takes a password; a digit sequence is a port."""
    return not (tool in ("docker", "podman") and re.fullmatch(r"-p[\d.:-]+(?:/\w+)?|-p[a-z]*=.*", item))


def _login(tool: str, before: str, item: str) -> tuple[int, int] | None:
    options = _LOGIN.get(tool, "").split()
    start = 0
    if before not in options:
        short = next((o for o in options if len(o) == 2 and item.startswith(o) and len(item) > 2), "")
        long = next((o for o in options if len(o) > 2 and item.startswith(f"{o}=")), "")
        if not (short or long):
            return None
        start = len(short) or len(long) + 1
    found = re.search("[:%]", item[start:])
    if not found or _is_reference(item[start + found.end() :]):
        return None
    return start + found.end(), len(item)


def _is_reference(text: str) -> bool:
    return not text or bool(re.fullmatch(r"\*+|env:\w+|file:[/~].*|\$\{?\w+\}?", text))
