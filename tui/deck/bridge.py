"""The deck's only way to the engine: reads in one thread of its own, writes as verbs. Never blocks the loop.

Owns when is read: at once for what is newly on the screen, five times a second at most for what has changed, and never
more than a fifth of the time. What is read is `reads`' business; how it looks that of the screens.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from taskdeck.engine import views
from taskdeck.engine.config import Config
from taskdeck.engine.errors import NotFound, NotPermitted, TaskdeckError
from taskdeck.engine.silence import Silence, on_silence

if TYPE_CHECKING:
    from taskdeck.engine.commands import Import

T = TypeVar("T")

PACE = 0.2
"""Seconds between two reads at least."""
SLOW_PACE = 1.0
"""The same for a terminal that can't take so much."""
SHARE = 4.0
"""A read is followed by a pause of this many times its length."""
PATIENCE = 1.0
"""Seconds until a database that can't be opened is tried again."""


class Question(NamedTuple):
    """Something to keep on the screen. It is read anew when `key` differs, the database changed, or `every` reads."""

    read: Callable[[views.View], Any]
    key: Hashable = None
    every: int = 0


class Trouble(NamedTuple):
    """What came instead of a value: what is wrong, why, and what to do."""

    error: TaskdeckError
    unforeseen: bool = False
    """Not one of taskdeck's own refusals."""

    def __str__(self) -> str:
        return str(self.error)


class Bridge:
    """One database, as the deck uses it. `arrived` is called in the reading thread when there is something to `take`.

    Where it answers False nobody listens any more, and reading ends.
    """

    def __init__(
        self,
        config: Config,
        arrived: Callable[[], object],
        clock: Callable[[], float],
        *,
        actor: str = "deck",
        read_only: bool = False,
    ) -> None:
        self.config = config
        self.read_only = read_only
        self.pace = PACE
        self._arrived = arrived
        self._clock = clock
        self._actor = actor
        self._wanted: Mapping[str, Question] = {}
        self._fresh: dict[str, Any] = {}
        self._questions: list[tuple[Callable[[views.View], Any], Callable[[Any], object]]] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self._anew = False
        self._told: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name="deck-reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End reading; what is being read is not waited for."""
        self._ended = True
        self._wake.set()

    def show(self, wanted: Mapping[str, Question]) -> None:
        """Keep exactly these on the screen from now on; what is new among them is read at once."""
        self._wanted = dict(wanted)
        self._wake.set()

    def forget(self) -> None:
        """Read everything that is wanted anew."""
        self._anew = True
        self._wake.set()

    def take(self) -> dict[str, Any]:
        """What has come since the last call, by its name; a `Trouble` where it could not be read."""
        with self._lock:
            fresh, self._fresh = self._fresh, {}
        return fresh

    async def ask(self, read: Callable[[views.View], T]) -> T:
        """One answer. Raises the `TaskdeckError` that was met instead."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(found: Any) -> None:
            def tell() -> None:
                if answer.done():
                    return
                if isinstance(found, Trouble):
                    answer.set_exception(found.error)
                else:
                    answer.set_result(found)

            loop.call_soon_threadsafe(tell)

        with self._lock:
            self._questions.append((read, settle))
        self._wake.set()
        return await answer

    async def act(
        self, verb: str, *, waits: Callable[[Silence], object] = lambda _: None, **args: Any
    ) -> Any:
        """Carry out a verb, through the engine or without one. Raises the `TaskdeckError` of the refusal.

        `waits` hears, in the loop, that the engine is silent and its answer still waited for.
        """
        if self.read_only:
            raise NotPermitted("this deck only reads", remedy="open it without --read-only")
        from taskdeck.engine import commands

        heard = _in_loop(waits)

        def call() -> Any:
            on_silence.set(heard)  # in a context of this thread's own
            return commands.call(self.config, verb, self._actor, **args)

        found = await asyncio.to_thread(call)
        self._wake.set()
        return found

    async def end_engine(self, asked: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """What `taskdeck stop` does, for an engine in another process; `asked` hears what it says of itself.

        Returns and raises what `commands.stop` does. One who leaves the deck meanwhile does not take it back.
        """
        from taskdeck.engine import commands

        found = await asyncio.to_thread(commands.stop, self.config, self._actor, asked=_in_loop(asked))
        self._wake.set()
        return found

    async def import_list(self, found: Import) -> list[dict[str, Any]]:
        """Import a list of routes that was looked at: all of it, or the `TaskdeckError` of the refusal."""
        if self.read_only:
            raise NotPermitted("this deck only reads", remedy="open it without --read-only")
        from taskdeck.engine import commands

        done = await asyncio.to_thread(commands.import_list, self.config, self._actor, found)
        self._wake.set()
        return done

    async def describe(self) -> tuple[dict[str, Any], Silence | None]:
        """What the engine says of itself, or its silence; neither where none works. What is read from now on knows it too."""
        from taskdeck.engine import commands

        told, silence = await asyncio.to_thread(commands.describe, self.config, self._actor)
        before, self._told = self._told, told
        # Of this the database says nothing, so that nobody would look.
        if _decisive(before) != _decisive(told):
            self.forget()
        return told, silence

    # ---- the reading thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended:
            try:
                with views.open_view(self.config, told=lambda: self._told) as view:
                    _Reading(self, view).go_on()
            except TaskdeckError as error:
                self._refuse(Trouble(error))
                # One that isn't there yet is being made, by the engine beside this deck: look again soon.
                self._pause(PACE if isinstance(error, NotFound) else PATIENCE)
            except _Unreadable:  # an open connection may stay unreadable for good where a new one is not
                self._pause(PATIENCE)
            except Exception as error:
                self._refuse(_unforeseen(error))
                self._pause(PATIENCE)

    def _refuse(self, trouble: Trouble) -> None:
        """Nothing can be read: everything that is wanted, and each question, is told so, behind the reason itself."""
        self._deliver({"database": trouble} | dict.fromkeys(self._wanted, trouble))
        for _, settle in self._asked():
            settle(trouble)

    def _asked(self) -> Sequence[tuple[Callable[[views.View], Any], Callable[[Any], object]]]:
        with self._lock:
            found, self._questions = self._questions, []
        return found

    def _deliver(self, found: Mapping[str, Any]) -> None:
        if not found or self._ended:
            return
        with self._lock:
            told = bool(self._fresh)
            self._fresh.update(found)
        if not told and self._arrived() is False:  # else what is on its way will bring this too
            self._ended = True

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()


def _in_loop(hears: Callable[[T], object]) -> Callable[[T], None]:
    """For another thread: what is told to it is told to `hears` in the running loop, as long as that goes on."""
    loop = asyncio.get_running_loop()

    def tell(what: T) -> None:
        with suppress(RuntimeError):  # the deck has gone
            loop.call_soon_threadsafe(hears, what)

    return tell


def _decisive(told: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides of all that an engine says of itself why tasks wait."""
    return bool(told.get("stopping")), (told.get("storage") or {}).get("pause", "")


class _Unreadable(Exception):
    """Nothing of what was due could be read, and nobody knows why."""


class _Reading:
    """One opened view, read until it fails or the bridge ends."""

    def __init__(self, bridge: Bridge, view: views.View) -> None:
        self._bridge = bridge
        self._view = view
        self._seen: tuple[object, ...] | None = None
        self._keys: dict[str, Hashable] = {}
        self._passes = 0

    def go_on(self) -> None:
        bridge = self._bridge
        bridge._deliver({"database": None})
        while not bridge._ended:
            begun = bridge._clock()
            self._pass()
            bridge._pause(max(bridge.pace, SHARE * (bridge._clock() - begun)))

    def _pass(self) -> None:
        for read, settle in self._bridge._asked():
            settle(_answer(read, self._view))
        version = self._view.version()
        changed, self._seen = version != self._seen, version
        if self._bridge._anew:
            changed, self._bridge._anew = True, False
        self._passes += 1
        wanted = self._bridge._wanted
        due = {name: each for name, each in wanted.items() if changed or self._is_due(name, each)}
        self._keys = {name: each.key for name, each in wanted.items()}
        failed = 0
        for name, each in due.items():  # each as it comes: the first waits for no other
            answer = _answer(each.read, self._view)
            failed += isinstance(answer, Trouble) and answer.unforeseen
            self._bridge._deliver({name: answer})
        if due and failed == len(due):
            raise _Unreadable

    def _is_due(self, name: str, question: Question) -> bool:
        if name not in self._keys or self._keys[name] != question.key:
            return True
        return bool(question.every) and self._passes % question.every == 0


def _answer(read: Callable[[views.View], Any], view: views.View) -> Any:
    try:
        return read(view)
    except TaskdeckError as error:
        return Trouble(error)
    except Exception as error:  # a pane shows it, all others live on
        return _unforeseen(error)


def _unforeseen(error: Exception) -> Trouble:
    what = f"this could not be read: {type(error).__name__}"
    return Trouble(TaskdeckError(what, str(error), "press R to read again"), unforeseen=True)
