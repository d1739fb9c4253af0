"""What a list of routes would change in what is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.route_import import read_list
from taskdeck.engine.rules.route_merge import ImportLine, KnownRoute, Offer, merged, offers

VALUES: dict[str, Any] = {
    "secret_ref": None,
    "group": "default",
    "labels": {},
    "capacity": 1,
    "expected_regions": [],
}


def known(id: str, url: tuple[str, str, int, str], origin: str = "import", **values: Any) -> KnownRoute:
    held, removed = values.pop("held", 0), values.pop("removed", False)
    return KnownRoute(id, url, VALUES | values, origin, held, removed)


def lines(text: str, *routes: KnownRoute, group: str = "") -> list[ImportLine]:
    offered, faults = offers(read_list(text.encode()), group)
    assert not faults
    return merged(offered, routes)


A = ("http", "1.2.3.4", 80, "bob")


def test_the_same_host_and_port_with_another_user_is_another_exit_with_an_id_of_its_own() -> None:
    found = lines("1.2.3.4:80:bob:x\n1.2.3.4:80:ann:x\nsocks5://1.2.3.4:80\n")
    assert [(line.kind, line.id) for line in found] == [
        ("new", "1.2.3.4-80"),
        ("new", "1.2.3.4-80-2"),
        ("new", "1.2.3.4-80-3"),
    ]


def test_what_a_list_does_not_say_stays_as_it_is() -> None:
    stands = known("eu-1", A, group="eu", labels={"city": "Berlin"}, capacity=4, expected_regions=["DE"])
    (line,) = lines("1.2.3.4:80:bob:x\n", stands)
    assert (line.kind, line.id, line.changes) == ("duplicate", "eu-1", ())


@pytest.mark.parametrize(
    ("cells", "changes"),
    [
        ("de,,", ("region",)),
        (",city=Bonn,", ("labels",)),
        (",tier=1,", ("labels",)),
        (",city=Berlin,2", ()),
        (",,3", ("capacity",)),
        ("DE,city=Bonn,9", ("labels", "capacity", "region")),
    ],
)
def test_a_change_is_named_by_what_differs(cells: str, changes: tuple[str, ...]) -> None:
    stands = known("eu-1", A, labels={"city": "Berlin"}, capacity=2, expected_regions=["AT"], held=1)
    (line,) = lines(f"host,port,username,region,labels,capacity\n1.2.3.4,80,bob,{cells}\n", stands)
    assert (line.kind, line.changes, line.held) == ("changed" if changes else "duplicate", changes, 1)


def test_what_the_configuration_declares_is_changed_only_there() -> None:
    stands = known("eu-1", A, origin="config")
    assert lines("1.2.3.4:80:bob:x\n", stands)[0].kind == "duplicate"
    (line,) = lines("1.2.3.4:80:bob:x # mine\n", stands)
    assert (line.kind, line.code) == ("bad", "E_CONFIGURED")


def test_an_id_that_another_exit_has_is_refused_and_one_that_was_removed_comes_back() -> None:
    other = known("eu-1", ("http", "9.9.9.9", 80, ""))
    (line,) = lines('{"id": "eu-1", "host": "1.2.3.4", "port": 80}', other)
    assert (line.kind, line.code) == ("bad", "E_ID_TAKEN")
    (line,) = lines("9.9.9.9:80\n", known("eu-1", ("http", "9.9.9.9", 80, ""), removed=True))
    assert (line.kind, line.id) == ("new", "eu-1")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"host": "1.2.3.4", "port": 80, "group": "a b"}', "E_GROUP"),
        ('{"host": "1.2.3.4", "port": 80, "id": "hunter2/x"}', "E_ID"),
        ('{"host": "1.2.3.4", "port": 80, "labels": {"hunter2 x": "1"}}', "E_LABELS"),
        ('{"host": "1.2.3.4", "port": 80, "username": "bob", "password": "hun\\u0007ter2"}', "E_PASSWORD"),
    ],
)
def test_a_value_that_cannot_be_used_is_a_fault_of_its_line_and_is_not_repeated(text: str, code: str) -> None:
    offered, (fault,) = offers(read_list(text.encode()))
    assert not offered
    assert (fault.line, fault.code) == (1, code)
    assert "hunter2" not in str(fault)


def test_a_comment_behind_a_line_becomes_a_label_and_a_group_may_be_given_for_all() -> None:
    offered, _ = offers(read_list(b"1.2.3.4:80  # fast\tone\x1b[31m\n"), "eu")
    assert offered[0].said == {"group": "eu", "labels": {"note": "fast one [31m"}}


PLACES = st.tuples(
    st.sampled_from(["http", "socks5"]),
    st.sampled_from(["a", "b.c"]),
    st.integers(1, 3),
    st.sampled_from(["", "u"]),
)


@given(st.lists(PLACES, max_size=12, unique=True), st.lists(PLACES, max_size=6, unique=True))
def test_every_exit_has_one_id_and_every_id_one_exit(
    wanted: list[tuple[str, str, int, str]], there: list[tuple[str, str, int, str]]
) -> None:
    routes = [known(f"{place[1]}-{place[2]}{place[3]}{number}", place) for number, place in enumerate(there)]
    found = merged([Offer(number, *place) for number, place in enumerate(wanted)], routes)
    ids = {each.identity: each.id for each in routes}
    for line, place in zip(found, wanted, strict=True):
        assert line.kind == ("duplicate" if place in there else "new")
        assert ids.setdefault(place, line.id) == line.id
    assert len(set(ids.values())) == len(ids)
