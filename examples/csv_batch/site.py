"""A small order site to post to, as a process of its own. It writes down every row that it accepts, duplicates as well.

    POST /rows            {"order_id": "A-1001", …}  →  {"id": 1}; one more line in the ledger, on disk before the answer
    GET  /rows/A-1001     →  {"id": 1}, or 404
    GET  /healthz         →  {"rows": 200}

usage: python site.py [--port 8787] [--ledger ledger.jsonl] [--port-file FILE] [--delay SECONDS]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
from pathlib import Path

from aiohttp import web


class Site:
    """Keeps the ledger: one JSON object a line, `{"id": …, "row": {…}}`."""

    def __init__(self, ledger: Path, delay: float) -> None:
        self.delay = delay
        self.known: dict[str, int] = {}
        self.count = 0
        if ledger.exists():
            for line in ledger.read_text(encoding="utf-8").splitlines():
                self._note(json.loads(line)["row"]["order_id"])
        self.file = ledger.open("a", encoding="utf-8")

    async def post(self, request: web.Request) -> web.Response:
        row = await request.json()
        if not isinstance(row, dict) or not row.get("order_id"):
            raise web.HTTPBadRequest(text="a row is an object with an order_id")
        number = self._note(row["order_id"])
        self.file.write(json.dumps({"id": number, "row": row}, ensure_ascii=False) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        await asyncio.sleep(self.delay)  # it is written, and the sender does not know yet
        return web.json_response({"id": number})

    async def get(self, request: web.Request) -> web.Response:
        number = self.known.get(request.match_info["row_id"])
        if number is None:
            raise web.HTTPNotFound(text="no such row")
        return web.json_response({"id": number})

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"rows": self.count})

    def _note(self, row_id: str) -> int:
        self.count += 1
        return self.known.setdefault(row_id, self.count)


async def serve(site: Site, sock: socket.socket, port_file: Path | None) -> None:
    app = web.Application()
    app.add_routes(
        [
            web.post("/rows", site.post),
            web.get("/rows/{row_id}", site.get),
            web.get("/healthz", site.health),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    port = sock.getsockname()[1]
    print(f"site: http://127.0.0.1:{port}/rows", flush=True)
    if port_file:
        port_file.with_suffix(".new").write_text(str(port))
        port_file.with_suffix(".new").rename(port_file)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A small order site.")
    parser.add_argument("--port", type=int, default=8787, help="0 = any free one")
    parser.add_argument("--ledger", type=Path, default=Path("ledger.jsonl"))
    parser.add_argument("--port-file", type=Path, help="where to write the port once it listens")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    try:
        sock = socket.create_server(("127.0.0.1", options.port))
        asyncio.run(serve(Site(options.ledger, options.delay), sock, options.port_file))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
