"""What an attempt holds: told to its code, blamed by its id, and its secrets kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from taskdeck.engine.run import messages as m
from tests.run.engine_double import engine
from tests.secret_files import reference

HANDLERS = str(Path(__file__).with_name("route_handlers.py"))
PASSWORD = "hunter2pw"
RESOURCES = {"browser": ["browser-2"], "gpu": ["gpu-1", "gpu-3"]}
ROUTE = m.LeasedRoute("eu-1", "socks5", "proxy.example.net", 1080, "bob", reference(PASSWORD))


def test_a_handler_sees_what_its_attempt_holds(tmp_path: Path) -> None:
    with engine(tmp_path, HANDLERS) as double:
        [info] = [one for one in double.wait(m.Manifest).types if one.name == "holds"]
        assert (info.needs, info.route, info.allow_direct, info.sync) == (
            ["browser", "gpu:2"],
            "eu",
            False,
            False,
        )
        seen = double.result(double.run("holds", resources=RESOURCES, route=ROUTE))
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", seen["proxy"])
        assert seen == {
            "resource": "browser-2",
            "resources": RESOURCES,
            "route": "eu-1",
            "proxy": seen["proxy"],
        }
        nothing = {"resource": None, "resources": {}, "route": None, "proxy": ""}
        assert double.result(double.run("holds")) == nothing


@pytest.mark.parametrize(
    ("params", "resources", "route", "detail"),
    [
        ({}, {"browser": ["browser-2"]}, None, "browser-2"),
        ({}, {"gpu": ["gpu-1", "gpu-3"], "browser": ["browser-2"]}, ROUTE, "gpu-1 gpu-3"),
        ({}, {}, ROUTE, "eu-1"),
        ({}, {}, None, ""),
        ({"resource": "gpu-3"}, RESOURCES, None, "gpu-3"),
        ({"resource": "gpu"}, RESOURCES, None, "gpu-1 gpu-3"),
        ({"resource": "eu-1"}, RESOURCES, ROUTE, "eu-1"),
        ({"resource": "browser-9"}, RESOURCES, None, ""),
    ],
)
def test_a_resource_fault_names_what_is_at_fault_among_what_is_held(
    tmp_path: Path, params: dict[str, str], resources: dict[str, list[str]], route: Any, detail: str
) -> None:
    with engine(tmp_path, HANDLERS) as double:
        failure = double.failure(double.run("blame", params, resources=resources, route=route))
        assert (failure["class_"], failure["detail"]) == ("resource_fault", detail)
        assert ("does not hold" in failure["message"]) == (params.get("resource") == "browser-9")


def test_the_password_of_a_route_is_masked_by_its_value_wherever_it_comes_up(tmp_path: Path) -> None:
    with engine(tmp_path, HANDLERS) as double:
        fence = double.run("leaks", route=ROUTE)
        assert double.outcome(fence).kind == "failed"
        assert "can't get out" in double.outcome(fence).tail
        assert PASSWORD not in str(double.told)
        log = (tmp_path / f"{fence}.log").read_text()
        assert "going out by" in log
        assert PASSWORD not in log


def test_a_route_that_cannot_be_used_fails_its_attempt_alone(tmp_path: Path) -> None:
    with engine(tmp_path, HANDLERS) as double:
        broken = m.LeasedRoute("eu-1", "gopher", "h", 1, "bob", reference(PASSWORD))
        outcome = double.outcome(double.run("holds", route=broken))
        assert outcome.kind == "failed"
        assert PASSWORD not in outcome.failure
        assert double.outcome(double.run("holds")).kind == "succeeded"
