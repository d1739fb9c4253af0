"""Which names stand before a secret: keys of JSON, variables, options, headers.

A name is cut into words (`dbPassword`, `DB_PASSWORD`, `--db-password` → db, password). It means a secret by a
strong word anywhere (password) or a weak one at the end (token), unless it speaks *about* the secret
(password_file, max_tokens).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .patterns import pattern


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


_STRONG = word_set(
    "password passwords passwd passwort pwd passphrase passcode secret secrets credential credentials"
)
_WEAK = word_set(
    "token authorization cookie cookies apikey apitoken authtoken accesskey secretkey privatekey clientsecret "
    "pass pw jwt bearer pat psk otp"
)
_KEYS = word_set("api access private secret auth signing encryption account shared license master session")
_ABOUT = word_set(
    "file path name names field url uri endpoint count length len size limit policy id ids hint expiry expires "
    "expired expiration age ttl type kind label reset ref reference prompt min max required enabled disabled "
    "changed strength manager store version rotation encoding format used budget status valid missing"
)
_VERBS = word_set(
    "no ask use with without prompt show generate verify save skip check reset change forget enable disable "
    "require allow update delete list rotate validate max min is has"
)
_STAGES = word_set("prod production dev staging stage test old new current previous primary main")
_STRONG_ENDS = ("password", "passwd", "passwort", "passphrase", "secret", "pwd", "密码", "口令", "密钥")
_WEAK_ENDS = (
    "token",
    "apikey",
    "secretkey",
    "accesskey",
    "sshpass",
    "dbpass",
    "userpass",
    "rootpass",
    "adminpass",
    "keypass",
)
_WORDS = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[\u4e00-\u9fff]+")


def words_of(name: str) -> list[str]:
    """The lower-case words of a name, without digits and separators."""
    return [word.lower() for word in _WORDS.findall(name[:256])]


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a text behind this name is a secret."""
    words = words_of(name)
    while words and words[-1] in _STAGES:
        words.pop()
    if not words or words[-1] in _ABOUT or (len(words) > 1 and words[0] in _VERBS):
        return False
    if _is_strong(words) or words[-1] in _WEAK or words[-1].endswith(_WEAK_ENDS):
        return True
    return len(words) > 1 and words[-1] in ("key", "keys") and words[-2] in _KEYS


@lru_cache(maxsize=4096)
def is_strong_name(name: str) -> bool:
    """Whether even a number behind this name is a secret (a `token` may be a count, a `password` not)."""
    return is_secret_name(name) and _is_strong(words_of(name))


def _is_strong(words: list[str]) -> bool:
    """`PGPASSWORD` and `dbpassword` hold their word without a seam."""
    return any(word in _STRONG or word.endswith(_STRONG_ENDS) for word in words)


def is_directory(name: str, value: object) -> bool:
    """Whether it is where a shell is or was: `PWD=/srv`. In the string of a database (`PWD=…;`) it is a password."""
    return name in ("PWD", "OLDPWD") and isinstance(value, str) and value.startswith("/")


class Names:
    """The names that mean a secret, the configured ones (whole, in any spelling) included."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._own = frozenset("".join(words_of(name)) or name.lower() for name in names)

    def __contains__(self, name: str) -> bool:
        return is_secret_name(name) or self.is_configured(name)

    @property
    def has_own(self) -> bool:
        """Whether the configuration names any."""
        return bool(self._own)

    def is_strong(self, name: str) -> bool:
        """Whether any value behind the name is a secret, numbers too."""
        return is_strong_name(name) or self.is_configured(name)

    def is_configured(self, name: str) -> bool:
        """Whether the configuration names it."""
        return bool(self._own) and ("".join(words_of(name)) or name.lower()) in self._own
