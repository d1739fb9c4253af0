"""No secret passes: by its name, its shape, its value in any encoding; and harmless texts pass untouched."""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules import secret_names
from taskdeck.engine.rules.redaction import MOST_CLEAN, Finding, Redactor, clean, find_secrets
from taskdeck.engine.rules.secret_shapes import Span
from tests.faults import fault

plain = Redactor()
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nhunter2\n-----END OPENSSH PRIVATE KEY-----"

SECRET_ARGV = [
    ["aws", "configure", "set", "aws_secret_access_key", "hunter2hunter2"],
    ["npm", "config", "set", "//registry.example.org/:_authToken", "hunter2hunter2"],
    ["openssl", "enc", "-k", "hunter2"],
    ["/opt/oracle/sqlplus", "-s", "scott/hunter2@db"],
    ["cmd", "--password", "hunter2"],
    ["cmd", "-p", "hunter2"],
    ["cmd", "--token=hunter2"],
    ["cmd", "--db-password=hunter2;&'x"],
    ["cmd", "-password", "hunter2"],
    ["cmd", "--api-key", "hunter2"],
    ["env", "PASSWORD=hunter2", "cmd"],
    ["sh", "-c", "PASSWORD=hunter2 cmd"],
    ["sh", "-c", "cmd --password hunter2 | tee log"],
    ["sh", "-c", "cmd --password 'hunter2 and more'"],
    ["sh", "-c", "mysql -u root -phunter2 db < dump.sql"],
    ["curl", "https://u:hunter2@h/"],
    ["curl", "https://:hunter2@h/"],
    ["curl", "-x", "socks5h://u:hunter2@h:1080", "https://h/"],
    ["curl", "-u", "user:hunter2", "https://h/"],
    ["curl", "-uuser:hunter2", "https://h/"],
    ["curl", "--user=user:hunter2", "https://h/"],
    ["curl", "-H", "Authorization: Bearer hunter2", "https://h/"],
    ["curl", "-H", "authorization:hunter2", "https://h/"],
    ["curl", "-H", "X-Api-Key: hunter2", "https://h/"],
    ["curl", "-H", "Cookie: session=hunter2; theme=dark", "https://h/"],
    ["curl", "-d", '{"user": "a", "password": "hunter2"}', "https://h/"],
    ["curl", "-d", "user=a&password=hunter2&x=1", "https://h/"],
    ["curl", "https://h/?access_token=hunter2&page=2"],
    ["/usr/bin/mysql", "-phunter2"],
    ["mysqldump", "--password=hunter2"],
    ["sudo", "sshpass", "-p", "hunter2", "ssh", "h"],
    ["redis-cli", "-a", "hunter2"],
    ["docker", "login", "-p", "hunter2"],
    ["7z", "x", "-phunter2", "a.7z"],
    ["smbclient", "-U", "user%hunter2", "//h/s"],
    ["lftp", "-u", "user,hunter2", "ftp://h/"],
    ["uploader", "--auth", "user:hunter2", "f.csv"],
    ["uploader", "--proxy-auth=user:hunter2", "f.csv"],
    ["uploader", "-login", "user:hunter2"],
    ["kubectl", "create", "secret", "generic", "a", "--from-literal=password=hunter2"],
    ["openssl", "-passin", "pass:hunter2"],
    ["psql", "postgresql://u:hunter2@h/db?sslmode=require"],
    ["psql", "host=h password=hunter2 dbname=d"],
    ["cmd", "--connection", "Server=h;User=u;Password=hunter2;"],
]

SECRET_TEXTS = [
    "PASSWORD=hunter2 cmd",
    "export DB_PASSWORD_PROD='hunter2'",
    "password: hunter2",
    "password = hunter2",
    '{"dbPassword": "hunter2"}',
    "{'password': 'hunter2'}",
    '"{\\"password\\": \\"hunter2\\"}"',
    '{"a": {"client_secret":"hunter2"}}',
    "<password>hunter2</password>",
    "config.password = hunter2",
    'password => "hunter2"',
    "form[password]=hunter2&x=1",
    "proxy http://user:hunter2@10.0.0.1:8080 refused",
    "http://u:hunter2@h:1,http://v:hunter2@h:2",
    "http://u:hun@hunter2@h/",
    "postgres://u:hu/hunter2@h/db",
    "> Authorization: Basic aHVudGVyMg== hunter2",
    "Set-Cookie: session=hunter2; Path=/",
    "PGPASSWORD=hunter2 psql",
    "dbpassword: hunter2 rootPassword: hunter2 SSHPASS=hunter2 accesstoken=hunter2",
    "token: hunterhunter2",
    "PRIVATE-TOKEN: hunter2",
    "password: |\n  hunter2\n",
    "cmd --password \\\n  hunter2",
    "machine h login u password hunter2",
    "CREATE USER u IDENTIFIED BY 'hunter2'",
    "密码：hunter2",
    '{"数据库密码": "hunter2"}',
    PRIVATE_KEY,
    "-----BEGIN RSA PRIVATE KEY-----\nhunter2",
]

KNOWN_SHAPES = [
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2c3D4" * 5,
    "glpat-" + "a1B2c3D4" * 3,
    "xoxb-" + "1234567890-abcdefghij",
    "AIza" + "a1B2c3D" * 5,
    "sk_live_" + "a1B2c3D4" * 3,
    "sk-proj-" + "a1B2c3D4" * 4,
    "npm_" + "a1B2c3" * 6,
    "hf_" + "aBcDeF" * 6,
    "SG." + "a1B2c3D4" * 2 + "." + "a1B2c3D4" * 5,
    "12345678:AA" + "a1B2c3D4e5F" * 3,
    "AGE-SECRET-KEY-1" + "Q" * 58,
    JWT,
]

HARMLESS = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
    "task 123e4567-e89b-12d3-a456-426614174000 done",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/home/user/data/token/keys/passwords.txt",
    "GET https://example.com:8080/path@v2?page=2&sort=key 200 12 ms",
    "ssh://git@github.com/a/b.git and git@github.com:a/b.git",
    "max_tokens=100 token_count: 5, tokens: 9",
    "the password is required; no password was given",
    "use --password to set it",
    "Enter password: ",
    "wrong password",
    "Basic authentication failed, Bearer token missing",
    "author: Bob, authority: none, keyboard: us",
    "--password-file=/run/secrets/x --token-url=https://h/",
    "password=$DB_PASSWORD token=${TOKEN} secret=env:TOKEN",
    "password: null, secret: ***, token: <token>",
    "key=value monkey=1 primary key: id",
    "12 passed, 3 failed; pass: 12",
    "compass=3 bypass=4",
    "2026-11-29T17:12:40.123456Z worker 3: done in 1h30m",
    "token: expired",
    "git commit -m fix the token: handling of long ones",
    "login ok, password accepted; password: accepted",
    "'/etc/passwd': Permission denied",
]

HARMLESS_ARGV = [
    ["mkdir", "-p", "data2"],
    ["ssh", "-p", "2222", "host"],
    ["docker", "run", "-p", "8080:80", "-p8443:443/tcp", "nginx"],
    ["cp", "-p", "file1", "file2"],
    ["nmap", "-p", "1-1000", "h"],
    ["cmd", "-p", "8080"],
    ["cmd", "-p", "out/dir1"],
    ["cmd", "-p", "profile"],
    ["psql", "-p", "5432", "--no-password", "db"],
    ["cmd", "--password", "env:DB_PASSWORD"],
    ["cmd", "--token", "file:/run/secrets/token"],
    ["cmd", "--password", "--verbose"],
    ["cmd", "--password-file", "/etc/x"],
    ["python", "scrape.py", "--max-tokens", "500", "--key", "name"],
    ["git", "checkout", "3f786850e387550fdab836ed7e6dc881de23001b"],
    ["curl", "-u", "user", "https://h/x?key=name"],
    ["./backup.sh", "--all"],
    ["git", "config", "credential.helper", "store-by-system"],
    ["git", "config", "credential.helper", "cache --timeout=3600"],
    ["grep", "password", "file2026.txt"],
    ["sqlplus", "scott@db", "@run/all2.sql"],
    ["openssl", "enc", "-k", "env:PW"],
    ["uploader", "--auth", "basic", "--auth-type=digest:sha256", "--login=env:LOGIN"],
    ["uploader", "--login", "host:22", "--auth", "https://h:8443/oauth", "--user", "app:staff"],
]


@fault("TF172", "TF173")
@pytest.mark.parametrize("argv", SECRET_ARGV, ids=" ".join)
def test_a_secret_in_a_command_line_is_masked_and_found(argv: list[str]):
    masked = plain.argv(argv)
    assert len(masked) == len(argv)
    assert "hunter2" not in " ".join(masked)
    assert masked[0] == argv[0]
    assert find_secrets(argv)
    assert "hunter2" not in str(find_secrets(argv))
    assert not find_secrets(masked)


@fault("TF172")
def test_a_live_token_in_a_header_is_masked_wherever_the_command_is_repeated():
    argv = ["curl", "-H", "Authorization: Bearer tok_12345678", "https://h/"]
    assert plain.argv(argv)[2] == "Authorization: Bearer ***"
    for text in (" ".join(argv), repr(argv), json.dumps({"argv": argv}), f"timed out: {argv!r}"):
        assert "tok_12345678" not in plain.text(text)
    assert "tok_12345678" not in json.dumps(plain.value({"argv": argv, "note": " ".join(argv)}))


@fault("TF173")
@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_a_secret_in_a_text_is_masked(text: str):
    assert "hunter2" not in plain.text(text)
    assert find_secrets(text)


@pytest.mark.parametrize("secret", KNOWN_SHAPES)
@pytest.mark.parametrize("frame", ["{}", "got {} back", '"{}"', "x={}&y", "https://h/{}/x", "({})"])
def test_a_token_of_a_known_shape_is_masked_anywhere(secret: str, frame: str):
    assert secret not in plain.text(frame.format(secret))


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_stays_as_it_is(text: str):
    assert plain.text(text) == text
    assert find_secrets(text) == []


@pytest.mark.parametrize("argv", HARMLESS_ARGV, ids=" ".join)
def test_a_harmless_command_line_stays_as_it_is(argv: list[str]):
    assert plain.argv(argv) == argv
    assert find_secrets(argv) == []


@fault("TF175")
@pytest.mark.parametrize(
    "form",
    [
        "hIQ7\\u002bbL/pZ2m=\\u003cx\\u0026y",  # JSON of encoders that mind HTML
        "hIQ7\\u002BbL/pZ2m=\\u003Cx\\u0026y",
        "hIQ7+bL/pZ2m=\\u003cx\\u0026y",
        "hIQ7+bL/pZ2m=&lt;x&amp;y",
        "hIQ7+b\n      L/pZ2m=<x&y",  # wrapped and indented
        "hIQ7+b \\\n  L/pZ2\r\n\tm=<x&y",
        "hIQ\n7+bL/\n\npZ2m=<x&\ny",
    ],
)
def test_a_configured_secret_is_masked_as_other_programs_write_or_wrap_it(form: str):
    redactor = Redactor(["hIQ7+bL/pZ2m=<x&y"])
    masked = redactor.text(f"before {form} behind")
    assert masked == "before *** behind"
    assert redactor.find({"note": form})


@fault("TF175")
def test_a_configured_secret_is_masked_in_every_form_and_under_any_name():
    secret = 'hIQ7+bL/pZ2m="é'
    redactor = Redactor([secret])
    raw = secret.encode()
    forms = [
        secret,
        urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
        urllib.parse.quote(secret, safe="")
        .lower()
        .replace("hiq7", "hIQ7")
        .replace("bl", "bL")
        .replace("pz2m", "pZ2m"),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        raw.hex(),
        *(
            base64.b64encode(before + raw + after).decode()
            for before in (b"", b"u:", b"a")
            for after in (b"", b"z")
        ),
        base64.urlsafe_b64encode(raw).decode(),
        f"{secret[:5]}\n{secret[5:]}",
        f"{secret[:5]}\r\n{secret[5:9]}\n{secret[9:]}",
    ]
    for form in forms:
        masked = redactor.text(f"ENDPOINT_SUFFIX={form} end")
        assert "***" in masked, form
        assert form[2:-2] not in masked
        assert masked.endswith(" end")
        assert redactor.value({"ENDPOINT_SUFFIX": form})["ENDPOINT_SUFFIX"] != form
        assert redactor.find({"x": form})
    assert redactor.value({f"a {secret}": 1}) == {"a ***": 1}


def test_the_lines_of_a_configured_key_are_masked_one_by_one():
    redactor = Redactor([PRIVATE_KEY.replace("hunter2", "c2VjcmV0bGluZQ")])
    assert redactor.text("c2VjcmV0bGluZQ") == "***"


def test_a_configured_value_that_is_too_short_is_no_pattern():
    assert Redactor(["a", "", "\n"]).text("a banana") == "a banana"


def test_where_a_shell_is_is_no_secret_but_a_database_password_of_the_same_name_is():
    redactor = Redactor()
    for text in ("PWD=/srv/app", "OLDPWD=/root\nPWD=/srv", "export PWD=/srv"):
        assert redactor.text(text) == text
    assert redactor.argv(["env", "PWD=/srv/my app", "sh"]) == ["env", "PWD=/srv/my app", "sh"]
    environment = {"PWD": "/srv", "OLDPWD": "/"}
    assert redactor.value(environment) == environment
    assert find_secrets(environment) == []
    assert redactor.value([{"name": "PWD", "value": "/srv"}]) == [{"name": "PWD", "value": "/srv"}]
    assert "hunter2" not in redactor.text("Driver=x;UID=sa;PWD=hunter2;")
    assert redactor.value({"PWD": "hunter2", "DB_PWD": "/hunter2", "pwd": "/x"}) == {
        "PWD": "***",
        "DB_PWD": "***",
        "pwd": "***",
    }


def test_configured_names_are_secret_in_any_spelling():
    redactor = Redactor(names=["seed_phrase", "pin"])
    assert redactor.value({"seedPhrase": "x y", "PIN": 1234, "pinned": 1}) == {
        "seedPhrase": "***",
        "PIN": "***",
        "pinned": 1,
    }
    assert redactor.text("SEED_PHRASE=abc pin: 1234") == "SEED_PHRASE=*** pin: ***"
    assert redactor.argv(["x", "--seed-phrase", "abc"]) == ["x", "--seed-phrase", "***"]


def test_values_are_masked_by_the_names_of_their_keys():
    value = {
        "password": "hunter2",
        "Password2": 12345,
        "token": 5,
        "credentials": {"user": "u", "list": ["a", 1, None, True]},
        "headers": {"Authorization": "Bearer x", "Accept": "*/*"},
        "password_file": "/etc/x",
        "passwords": [],
        "secret": None,
        "api_key": "env:KEY",
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "HOME", "value": "/root"}],
        "rows": [1, 2.5, "x", {"n": ("a", 2)}],
    }
    masked = plain.value(value)
    assert masked == {
        **value,
        "password": "***",
        "Password2": "***",
        "credentials": {"user": "***", "list": ["***", "***", None, True]},
        "headers": {"Authorization": "***", "Accept": "*/*"},
        "env": [{"name": "DB_PASSWORD", "value": "***"}, {"name": "HOME", "value": "/root"}],
        "rows": [1, 2.5, "x", {"n": ["a", 2]}],
    }
    assert [finding.where for finding in find_secrets(value)] == [
        "$.password",
        "$.Password2",
        "$.credentials",
        "$.headers.Authorization",
        "$.env[0].value",
    ]


def test_findings_name_the_place_and_the_rule_only():
    assert find_secrets(["cmd", "--password", "hunter2"]) == [Finding("argument 3", "value of --password")]
    assert find_secrets({"a": [{"token": "hunter2x"}]}) == [Finding("$.a[0].token", "value of token")]
    assert find_secrets({"argv": ["x", "https://u:p@h/"]}) == [Finding("$.argv[1]", "login in a URL")]


def test_a_value_of_any_depth_ends():
    value: Any = "hunter2"
    for _ in range(5000):
        value = [value]
    assert "hunter2" not in str(plain.value({"password": value}))
    assert find_secrets(value) == []


@given(
    st.text(alphabet="pas word=:\"'\\-*{}@/x1\n", max_size=80),
    st.lists(st.text(min_size=4, max_size=8), max_size=3),
)
def test_masking_twice_is_masking_once_and_configured_values_never_pass(text: str, secrets: list[str]):
    redactor = Redactor(secrets)
    once = redactor.text(" ".join([text, *secrets, text]))
    assert redactor.text(once) == once
    assert not [
        secret
        for secret in secrets
        if secret in once and len(secret.strip("\r\n")) >= 4 and "*" not in secret
    ]


@pytest.mark.parametrize(
    "text",
    [*("a" * 300_000, "://:" * 70_000, '"' * 300_000, "password" * 40_000, "password=" * 30_000, "\\" * 300_000),
    "-p " * 100_000 + "mysql", "mysql " + "'" * 99_999, "eyJ" * 90_000, "x://u:" * 40_000 + "@", "Bearer " * 40_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_no_text_takes_long(text: str):
    plain.text(text)


@fault("TF157")
@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b]52;c;ZXZpbA==\x07after", "after"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("\x1b[2Ja\x1b[6nb\x1b[31mc\x1b[0m", "abc"),
        ("\x9b2Ja\x9d0;x\x9cb\x90q\x1b\\c", "abc"),
        ("unfinished \x1b", "unfinished "),
        ("unfinished \x1b[", "unfinished "),
        ("unfinished \x1b]0;title\nnext", "unfinished 0;title\nnext"),
        ("\x1b(B\x1b7\x1bcx", "x"),
        ("bell \x07 back \x08 cr \r nul \x00 del \x7f", "bell ␇ back ␈ cr ␍ nul ␀ del ␡"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("\u202egnp.exe\u2066x", "�gnp.exe�x"),
        ("half \ud800 pair", "half � pair"),
        ("\x85\u2028", "��"),
        ("\x1b\x1b[31m[2J", "[2J"),
        ("👩\u200d👩 naïve 中文", "👩\u200d👩 naïve 中文"),
    ],
)
def test_a_cleaned_text_cannot_steer_a_terminal(text: str, cleaned: str):
    assert clean(text) == cleaned


@fault("TF157")
@given(st.text(alphabet=st.characters() | st.sampled_from("\x1b\x9b\x9d\x07[]();m2\\"), max_size=60))
def test_no_control_leaves_and_all_is_encodable(text: str):
    cleaned = clean(text)
    cleaned.encode()
    assert not [c for c in cleaned if c not in "\n\t" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0)]
    assert clean(cleaned) == cleaned


def test_a_cleaned_text_is_cut_visibly_and_keeps_only_what_is_asked():
    assert clean("abcdef", limit=4) == "abc…"
    assert clean("abcd", limit=4) == "abcd"
    assert len(clean("\x1b[31m" * 1_000_000, limit=80)) <= 80
    assert clean("a\nb\tc", keep="") == "a␊b␉c"


def test_markup_is_left_to_those_who_draw():
    assert clean("[@click=app.quit]press[/]") == "[@click=app.quit]press[/]"


def test_a_secret_that_is_a_key_is_found_and_not_repeated():
    token, login = "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "http://ann:Tr0ub4dor99@h.example/"
    for key in (token, login):
        for value in ({key: 1}, {"seen": {key: {"deep": 1}}}, [{key: [1]}]):
            found = find_secrets(value)
            assert found, value
            assert not any(secret in str(each) for each in found for secret in (token, "Tr0ub4dor99"))


def test_the_name_of_a_secret_value_is_told_without_secrets_of_its_own():
    (first, *rest) = find_secrets({"password http://ann:Tr0ub4dor99@h.example/": "hunter2hunter2"})
    assert "Tr0ub4dor99" not in f"{first}{rest}"


def test_a_text_that_was_harmless_is_masked_once_its_secret_is_known() -> None:
    redactor = Redactor()
    assert redactor.text("tr0ub4dor") == "tr0ub4dor"
    redactor.learn("tr0ub4dor")
    assert redactor.text("tr0ub4dor") == "***"
    assert redactor.value({"note": "tr0ub4dor"}) == {"note": "***"}


def test_what_is_found_harmless_while_its_secret_becomes_known_is_not_remembered() -> None:
    class Late(Redactor):
        def _spans(self, text: str) -> list[Span]:
            found = super()._spans(text)
            self.learn("tr0ub4dor")
            return found

    redactor = Late()
    assert redactor.text("tr0ub4dor") == "tr0ub4dor"
    assert redactor.text("tr0ub4dor") == "***"


def test_only_some_harmless_texts_are_remembered_and_no_secret() -> None:
    redactor = Redactor(["tr0ub4dor"])
    for n in range(MOST_CLEAN + 10):
        redactor.text(f"task {n}")
        redactor.text(f"tr0ub4dor {n}")
    assert 0 < len(redactor._clean) <= MOST_CLEAN
    assert not any("tr0ub4dor" in text for text in redactor._clean)


def test_every_name_of_a_secret_is_met_in_any_case_wherever_it_stands_in_a_text():
    names = sorted(
        {*secret_names._STRONG, *secret_names._WEAK, "api_key", "accessKey", "密码", "口令", "密钥"}
    )
    for name in names:
        for written in (name, name.upper(), name.capitalize()):
            assert plain.text(f"x 1\n{written}=hunter2\ny 2") == f"x 1\n{written}=***\ny 2"


NAMES = sorted(
    {*secret_names._STRONG, *secret_names._WEAK, "api_key", "accessKey", "密码", "rate", "url", "value"}
)
PIECES = st.sampled_from(
    [
        *SECRET_TEXTS,
        *KNOWN_SHAPES,
        *NAMES,
        *(word for argv in SECRET_ARGV for word in argv),
        "https://hooks.slack.com/services/T0AB/B0CD/abcd1234",
        "https://shop.example.org/a?b=1",
        'é "quoted"',
        "xy12",
    ]
)
TEXTS = PIECES | st.lists(PIECES, max_size=3).map(" ".join) | st.text(max_size=12)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(TEXTS, max_size=5)
        | st.dictionaries(TEXTS, inner, max_size=4)
        | st.builds(lambda name, value: {"name": name, "value": value}, TEXTS, inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("redactor", [plain, Redactor(["xy12", 'a "b"'], ["rate"]), Redactor(["xy12"])])
@given(value=VALUES)
def test_what_is_surely_clean_by_its_text_holds_nothing_that_would_be_found(
    redactor: Redactor, value: Any
) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert not redactor.surely_clean(text) or not redactor.find(value)


@pytest.mark.parametrize("secret", [*SECRET_TEXTS, *KNOWN_SHAPES])
def test_no_secret_is_surely_clean(secret: str) -> None:
    for value in (secret, {"a": secret}, [1, secret], {secret: 1}):
        assert not plain.surely_clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_a_plain_payload_is_surely_clean() -> None:
    assert plain.surely_clean(
        '{"number":7,"kind":"page","url":"http://shop.example.org/a/7","words":[1,"two"]}'
    )
