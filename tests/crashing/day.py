"""A day of all verbs, of people and of workers, the same each time: what is killed at every fault point it passes."""

from __future__ import annotations

from taskdeck.engine.rules.failures import FailureClass
from taskdeck.engine.run.messages import Run
from tests.crashing.life import Life, names, task


def live_through(life: Life) -> None:
    """The whole day."""
    morning(life)
    midday(life)
    afternoon(life)
    evening(life)
    life.stop()


def morning(life: Life) -> None:
    """People add and change their minds; nothing has run yet."""
    life.submit(task("plain", effects=2), task("browse", "browse", effects=1), task("fail", max_retry=1))
    life.submit(task("plain", effects=2))  # a trigger that fires twice
    waits, gone, later = life.submit(
        task("waits"), task("gone"), task("later", not_before="2026-11-29T12:10:00.000000Z")
    )
    life.act("pause", waits)
    life.act("pause", waits, later)
    life.act("cancel", gone)
    life.act("cancel", gone)
    life.act("hold", scope="all")
    assert life.tick() == []
    life.act("release", scope="all")
    life.act("resume", waits, later)
    life.act("retry", gone)
    life.act("resource_disable", "browser-2")


def midday(life: Life) -> None:
    """Work that goes well, work that fails, and people who interfere with what runs."""
    runs = names(life.tick())
    life.work(runs["plain"])
    life.start(runs["browse"])
    life.act("resource_disable", "browser-1")  # it is in use: drained
    life.once(runs["browse"], "browse:0")
    life.end(runs["browse"], "failed", FailureClass.RESOURCE_FAULT, exit_code=1)
    for verb in ("resource_enable", "resource_reset"):
        life.act(verb, "browser-1", "browser-2")
    life.start(runs["fail"])
    life.end(runs["fail"], "failed", FailureClass.RETRYABLE)
    life.act("retry", runs["fail"].task_id)
    paused(life, runs["waits"])
    life.start(runs["gone"])
    life.act("cancel", runs["gone"].task_id)
    life.end(runs["gone"], "cancelled")
    life.clock.advance(30.0)
    for run in names(life.tick()).values():
        if run.task_id == runs["fail"].task_id:
            life.start(run)
            life.end(run, "failed", FailureClass.RETRYABLE)  # for good: a person decides
        else:
            life.work(run)
    life.act("discard", runs["fail"].task_id)


def paused(life: Life, run: Run) -> None:
    """Suspended in memory, resumed, paused at a checkpoint, resumed."""
    number = run.task_id
    life.start(run)
    life.act("pause", number)
    life.end(run, "stopped")
    life.act("resume", number)
    life.end(run, "resumed")
    life.act("pause", number)
    life.save(run, page=1)
    life.end(run, "paused")
    life.act("resume", number)


def afternoon(life: Life) -> None:
    """A worker dies with work in its hands, twice; what was in doubt is looked up, what must not run twice is reviewed."""
    life.submit(task("lost", effects=2), task("careful", "once_only", effects=1), task("sent"))
    runs = names(life.tick())
    life.start(runs["lost"])
    life.once(runs["lost"], "lost:0")
    life.save(runs["lost"], done=1)
    life.begin_effect(runs["lost"], "lost:1")
    life.start(runs["careful"])
    life.once(runs["careful"], "careful:0")
    life.lose_worker()
    life.act("retry", runs["careful"].task_id)
    for run in life.tick():
        life.work(run)


def evening(life: Life) -> None:
    """The quieter ends: drained, too early, never started, fatal, in doubt; again, and settled by hand."""
    life.submit(*(task(name, effects=1) for name in ("drained", "early", "unborn", "fatal", "doubtful")))
    runs = names(life.tick())
    for name in ("drained", "early", "fatal", "doubtful"):
        life.start(runs[name])
    life.end(runs["drained"], "drained")
    life.end(runs["early"], "failed", FailureClass.DELAYED)
    life.end(runs["unborn"], "never_started")
    life.end(runs["fatal"], "failed", FailureClass.FATAL)
    life.intend(runs["doubtful"], "doubtful:0")  # it never happens, as the person finds out who settles it
    life.doubt(runs["doubtful"], "doubtful:0")
    life.end(runs["doubtful"], "in_doubt", FailureClass.FATAL)
    life.act("retry", runs["fatal"].task_id, runs["doubtful"].task_id)
    life.act("operation_redo", task=runs["doubtful"].task_id, key="doubtful:0")
    life.act("retry", runs["doubtful"].task_id)
    life.act("retry", 1, again=True)
    life.clock.advance(700.0)
    for run in life.tick():
        life.work(run)
