"""What people call a host, reduced to a bare host name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskdeck.engine.rules.hosts import bare_host, named_host


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("shop.example", "shop.example"),
        (" Shop.Example:8443 ", "shop.example"),
        ("https://shop.example/a@b?c#d", "shop.example"),
        ("https://ann:hunter2@shop.example:1/x", "shop.example"),
        ("ann:hunter2@shop.example", "shop.example"),
        ("//ann@shop.example", "shop.example"),
        ("https://ann:hunt@er2@shop.example", "shop.example"),
        ("http://[2001:DB8::1]:80/", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("münchen.example", "münchen.example"),
        ("ann:hunter2", ""),
        ("https://ann:hunt/er2@shop.example", ""),
        ("bob:Secretpw12345:127.0.0.1:38833", ""),
        ("https://", ""),
        ("two words", ""),
        ("", ""),
    ],
)
def test_only_the_host_is_left(given: str, host: str) -> None:
    assert bare_host(given) == host
    if not host:
        with pytest.raises(ValueError, match="name the host") as refused:
            named_host(given)
        assert "unter" not in str(refused.value)


@given(st.text())
def test_any_text_is_reduced_and_what_is_left_stays(text: str) -> None:
    host = bare_host(text)
    assert bare_host(host) == host
    assert not set(host) & set("@/?# ")
