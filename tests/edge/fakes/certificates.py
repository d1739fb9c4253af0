"""Certificates for tests: an authority that clients trust, and another that they don't."""

from __future__ import annotations

import ssl
from functools import cache

import trustme


@cache
def authority(name: str = "good") -> trustme.CA:
    """One of the authorities, the same each time."""
    return trustme.CA(organization_name=name)


@cache
def server_context(*names: str, by: str = "good") -> ssl.SSLContext:
    """What a server of these names (default: loopback's) shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority(by).issue_cert(*(names or ("localhost", "127.0.0.1"))).configure_cert(context)
    return context


@cache
def client_context() -> ssl.SSLContext:
    """What a client trusts: the good authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority("good").configure_trust(context)
    return context
