"""Connections that are cut off."""

from __future__ import annotations

import select
import socket
from contextlib import suppress

from taskdeck.engine.edge.dialling import cut


def test_a_peer_that_sends_without_end_learns_at_once_that_it_was_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            far.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    far.send(bytes(65536))
            cut(near)
            while near.recv(1 << 20):  # as a transport does, which closes at the end
                pass
            near.close()
            poll = select.poll()
            poll.register(far, 0)
            assert [events & select.POLLERR for _, events in poll.poll(0)] == [select.POLLERR]


def test_what_is_closed_or_was_never_connected_is_cut_off_without_ado() -> None:
    with socket.socket() as sock:
        cut(sock)
    cut(sock)
