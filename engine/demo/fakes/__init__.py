"""Proxies on loopback that speak HTTP, CONNECT and SOCKS, each leaving from an address of its own, and fail on request.

For the demo and for tests. Must not be used for anything else: they are as simple as fakes may be.
"""
