"""Failures are judged by a table: by exception, HTTP status, exit code or signal."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from taskdeck.engine import Delay, Fatal, NotDone, ResourceFault, Retry
from taskdeck.engine.errors import InvalidPayload
from taskdeck.engine.rules.failures import (
    Failure,
    FailureClass,
    describe,
    from_exception,
    from_exit,
    from_status,
)
from tests.faults import fault

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def judged(error: BaseException) -> Failure:
    return from_exception(*describe(error), now=NOW)


def answer(status: int, retry_after: str | None = None) -> aiohttp.ClientResponseError:
    url, headers = (
        URL("http://h/"),
        CIMultiDictProxy(CIMultiDict({"Retry-After": retry_after} if retry_after else {})),
    )
    request = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    return aiohttp.ClientResponseError(request, (), status=status, message="no", headers=headers)


class Mine(ConnectionResetError):
    """A user's subclass is judged by its base."""


@pytest.mark.parametrize(
    ("error", "class_", "kind"),
    [
        (TimeoutError(), "retryable", "timeout"),
        (aiohttp.ServerTimeoutError(), "retryable", "timeout"),
        (aiohttp.ServerDisconnectedError(), "retryable", "connection"),
        (aiohttp.InvalidURL("x"), "fatal", "invalid_url"),
        (subprocess.TimeoutExpired("x", 1), "retryable", "timeout"),
        (subprocess.CalledProcessError(77, "x"), "fatal", "exit_77"),
        (subprocess.CalledProcessError(-9, "x"), "retryable", "killed"),
        (Mine(), "retryable", "connection"),
        (BrokenPipeError(), "retryable", "connection"),
        (PermissionError(), "fatal", "permission"),
        (FileNotFoundError(), "fatal", "not_found"),
        (OSError(errno.ENOSPC, "full"), "retryable", "disk_full"),
        (OSError(errno.EROFS, "read-only"), "fatal", "permission"),
        (OSError(errno.EIO, "broken"), "retryable", "error"),
        (MemoryError(), "retryable", "memory"),
        (msgspec.ValidationError("x"), "fatal", "validation"),
        (InvalidPayload("x"), "fatal", "invalid_payload"),
        (NotDone("x"), "retryable", "not_done"),
        (ValueError("x"), "retryable", "error"),
        (KeyError("x"), "retryable", "error"),
        (SystemExit(3), "retryable", "error"),
        (Retry("x"), "retryable", "retry"),
        (Fatal("x"), "fatal", "fatal"),
        (ResourceFault("x", resource="browser-1"), "resource_fault", "resource_fault"),
        (urllib.error.HTTPError("http://h/", 503, "no", Message(), None), "retryable", "http_503"),
        (urllib.error.HTTPError("http://h/", 404, "no", Message(), None), "fatal", "http_404"),
    ],
)
def test_exceptions_are_judged_by_the_most_derived_class_that_is_known(
    error: BaseException, class_: str, kind: str
):
    failure = judged(error)
    assert (failure.class_, failure.kind) == (class_, kind)
    assert failure.message
    assert failure.rule


@pytest.mark.parametrize(
    ("status", "class_"),
    [(429, "delayed"), (408, "retryable"), (425, "retryable"), (500, "retryable"), (503, "retryable"), (599, "retryable")]
    + [(status, "fatal") for status in (400, 401, 403, 404, 405, 410, 422, 451)]
    + [(409, "retryable"), (302, "retryable"), (407, "resource_fault")],
)  # fmt: skip
def test_http_answers_are_judged_by_their_status(status: int, class_: str):
    assert judged(answer(status)).class_ == class_
    assert from_status(status, "x").rule == f"HTTP status {status}"


@fault("TF048", "TF049")
@pytest.mark.parametrize(
    ("header", "delay"),
    [
        ("30", 30),
        ("99999999999999999999", 3600),
        ("Sun, 29 Nov 2026 12:01:00 GMT", 60),
        ("abc", None),
        (None, None),
    ],
)
def test_a_429_waits_as_long_as_the_server_asks(header: str | None, delay: float | None):
    assert judged(answer(429, header)).delay == delay
    assert judged(answer(404, header)).delay is None


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (Delay(seconds=90), 90),
        (Delay(until=NOW + timedelta(hours=5)), 18000),
        (Delay(until=NOW - timedelta(hours=5)), 0),
        (Delay(), None),
        (Delay(seconds=-1), None),
        (Delay(seconds=float("nan")), None),
        (Retry(after=5), 5),
        (Retry(), None),
    ],
)
def test_a_handler_names_its_own_wait(error: BaseException, delay: float | None):
    assert judged(error).delay == delay


def test_a_wait_without_end_is_made_finite():
    assert judged(Delay(seconds=float("inf"))).delay == 10 * 365 * 86400


@fault("TF271")
@pytest.mark.parametrize(
    ("code", "class_", "kind", "story"),
    [
        (1, "retryable", "exit_1", "the command exited with 1"),
        (2, "retryable", "exit_2", "the command exited with 2"),
        (75, "retryable", "exit_75", "the command exited with 75 (try again later)"),
        (127, "fatal", "exit_127", "the command exited with 127 (command not found)"),
        (137, "retryable", "killed", "the command exited with 137 (ended by SIGKILL)"),
        (255, "retryable", "exit_255", "the command exited with 255"),
        (-9, "retryable", "killed", "the command was ended by SIGKILL"),
        (-15, "retryable", "killed", "the command was ended by SIGTERM"),
        (-40, "retryable", "killed", "the command was ended by signal 40"),
        *(
            (code, "fatal", f"exit_{code}", f"the command exited with {code} (")
            for code in (64, 65, 66, 77, 78, 126)
        ),
    ],
)
def test_only_0_is_success_and_signals_are_named(code: int, class_: str, kind: str, story: str):
    failure = from_exit(code, {})
    assert failure is not None
    assert (failure.class_, failure.kind, failure.detail) == (class_, kind, str(code))
    assert failure.message.startswith(story)
    assert from_exit(0, {}) is None


@fault("TF271")
@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("exit 0", None),
        ("exit 256", None),
        ("false | true", None),
        ("true | false", "exit_1"),
        ("kill -9 $$", "killed"),
        ("kill -15 $$", "killed"),
        ("nosuchcmd", "exit_127"),
        ("sh -c 'kill -9 $$'; exit $?", "killed"),
    ],
)
def test_real_commands_are_judged_as_the_system_reports_them(script: str, kind: str | None):
    environment = {"PATH": os.environ["PATH"]}
    code = subprocess.run(
        ["bash", "-c", script], env=environment, stderr=subprocess.DEVNULL, check=False
    ).returncode
    failure = from_exit(code, {})
    assert (failure and failure.kind) == kind


def test_a_type_may_say_what_its_exit_codes_mean():
    said = {3: "success", 4: "delayed", 75: "fatal", 0: "retryable", 137: "fatal"}
    assert from_exit(3, said) is None
    failures = [from_exit(code, said) for code in (4, 75, 0, 137)]
    assert [failure and failure.class_ for failure in failures] == ["delayed", "fatal", "retryable", "fatal"]


class Hostile(Exception):
    """Everything about it fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    @property
    def status(self) -> int:
        raise RuntimeError("no status")

    headers = 5


def test_an_exception_that_fails_itself_is_still_judged():
    failure = judged(Hostile())
    assert (failure.class_, failure.message) == ("retryable", "Hostile")


def test_a_message_names_the_kind_of_a_foreign_exception():
    assert judged(KeyError("x")).message == "KeyError: 'x'"
    assert judged(KeyError()).message == "KeyError"
    assert judged(Fatal("no such page")).message == "no such page"


def test_an_exception_without_a_text_is_told_by_its_kind():
    assert judged(Delay("too early", seconds=1)).message == "too early"
    for error in (Delay(seconds=1), Delay(None, seconds=1)):  # type: ignore[arg-type]
        assert judged(error).message == "Delay"
    assert judged(RuntimeError(None)).message == "RuntimeError"


def test_a_message_is_cleaned_and_bounded():
    failure = judged(ValueError("\x1b[31mred\udcff" + "x" * 10_000))
    assert failure.message.startswith("ValueError: red�x")
    assert len(failure.message) == 2000
    json.dumps(failure.message).encode()


def test_a_failure_survives_the_way_between_processes():
    failure = Failure(FailureClass.DELAYED, "http_429", "slow down", "HTTP status 429", 30.0, "429")
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(failure), type=Failure) == failure


@given(
    st.lists(st.text()),
    st.text(),
    st.dictionaries(st.sampled_from(["status", "errno", "returncode"]), st.integers()),
)
def test_any_description_is_judged(names: list[str], message: str, attributes: dict[str, Any]):
    known = [
        "builtins.OSError",
        "subprocess.CalledProcessError",
        "aiohttp.client_exceptions.ClientResponseError",
    ]
    for name in (*names, *known):
        assert from_exception([name], message, attributes).class_ in FailureClass
