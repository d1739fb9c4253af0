"""A journey on a disk that fills up. Run in a namespace of its own: -m tests.journeys.small_disk FOLDER."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.journeys.decks import CONFIG, Deck

STORAGE = '\n[storage]\nwarn_free_bytes = 100_000\npause_free_bytes = 0\n[logging]\nlevel = "debug"\n'


def fill(path: Path) -> None:
    """Take all the room there is."""
    with open(path, "ab", buffering=0) as ballast:
        for size in (1 << 20, 4096, 1):
            try:
                while ballast.write(bytes(size)) == size:
                    pass
            except OSError:
                pass


def refusal(deck: Deck) -> subprocess.CompletedProcess[str]:
    """What `add` says once it is refused: what the file of the write-ahead log has room for already is taken until then."""
    many = 100
    while not (said := deck.cli("add", "--", "echo", "x" * 60_000)).returncode and (many := many - 1):
        pass
    return said


def alerts(deck: Deck) -> list[str]:
    found = json.loads(deck.ok("status", "--json"))["storage"] or {"alerts": []}
    return [each["reason"] for each in found["alerts"]]


def main(home: Path) -> None:
    deck = Deck(home)
    deck.configure(CONFIG.format(handlers="") + STORAGE)
    try:
        deck.start(workers=1)
        deck.until_ready()
        go = home / "go"
        running = deck.add("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; echo well; exit 0")
        deck.until_command(running)
        later = deck.add("--in", "1s", "--", "true")
        fill(home / "ballast")
        refused = refusal(deck)
        assert refused.returncode == 75, refused
        assert "can't be written now" in refused.stderr, refused.stderr
        deck.until(lambda: "disk_full" in alerts(deck), "the full disk is told of")
        assert "ALERT" in deck.ok("status")
        os.mkfifo(go)  # an entry of a folder takes no block of this disk
        deck.until(lambda: not deck.commands(running), "the command ends")
        assert deck.state(running) == "RUNNING"
        assert deck.state(later) == "PENDING"

        os.unlink(home / "ballast")
        assert deck.until_state(running, "SUCCESS", "NEEDS_REVIEW", "FAILED", "RETRYING") == "SUCCESS"
        assert deck.until_state(later, "SUCCESS") == "SUCCESS"
        assert [each["number"] for each in deck.attempts(running)] == [1]
        deck.until(lambda: not alerts(deck), "it is over")
        told = [each["reason"] for each in deck.events(None, "ALERT_RAISED")]
        assert "disk_full" in told, told

        fill(home / "ballast")
        refused = refusal(deck)
        assert refused.returncode == 75, refused
        deck.children[0].send_signal(signal.SIGTERM)
        code = deck.finish(deck.children[0])
        assert code == 75, (code, deck.told())
        deck.children.clear()
        started = deck.start()
        assert deck.finish(started) == 75, deck.told()
        for verb in ("status", "list"):
            assert deck.ok(verb)
        assert "Traceback" not in (home / "run.log").read_text() + refused.stderr
        deck.children.clear()

        os.unlink(home / "ballast")
        deck.start("--until-idle")
        assert deck.finish(deck.children[0]) == 0, deck.told()
        deck.stop()
        print("well")
    finally:
        deck.clean_up()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
