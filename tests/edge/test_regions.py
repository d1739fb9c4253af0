"""Regions of addresses: the registries' data, a MaxMind file, and what is missing said plainly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from taskdeck.engine.edge.regions import Remembered, open_regions
from taskdeck.engine.errors import Unavailable


@pytest.fixture
def database(tmp_path: Path) -> Path:
    writer = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="Test-Country")
    writer.insert_network(IPSet(["203.0.113.0/24"]), {"country": {"iso_code": "de"}})
    writer.insert_network(IPSet(["2001:db8::/32"]), {"registered_country": {"iso_code": "FR"}})
    writer.insert_network(IPSet(["198.51.100.0/24"]), {"country": "odd"})
    file = tmp_path / "country.mmdb"
    writer.to_db_file(str(file))
    return file


def test_the_registries_know_both_families_and_say_who_they_are() -> None:
    regions = open_regions()
    assert regions.region("8.8.8.8") == "US"
    assert regions.region("2001:4860:4860::8888") == "US"
    assert regions.region("127.0.0.1") is None
    assert regions.source.startswith("iptocc 3.")


def test_a_named_database_stands_for_the_registries(database: Path) -> None:
    regions = open_regions(database)
    assert regions.region("203.0.113.7") == "DE"
    assert regions.region("2001:db8::7") == "FR"
    assert regions.region("198.51.100.7") is None
    assert regions.region("192.0.2.1") is None
    assert regions.source.startswith("country.mmdb of 2")


def test_an_address_keeps_its_region_and_is_looked_up_once() -> None:
    asked = []

    def look_up(address: str) -> str:
        asked.append(address)
        return f"R{len(asked)}"

    regions = Remembered("a test", look_up)
    assert [regions.region("1.1.1.1"), regions.region("2.2.2.2"), regions.region("1.1.1.1")] == [
        "R1",
        "R2",
        "R1",
    ]
    assert asked == ["1.1.1.1", "2.2.2.2"]


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "country.mmdb"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Unavailable, match=r"country\.mmdb can't be read") as caught:
        open_regions(file)
    assert "geo_db" in caught.value.remedy


@pytest.mark.parametrize(("library", "file"), [("iptocc", None), ("maxminddb", Path("country.mmdb"))])
def test_a_missing_library_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, library: str, file: Path | None
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=rf"{library} is not installed \(install taskdeck\[geo\]"):
        open_regions(file)
