"""The same check on times, which does not ask twice about the same time.

A new task has one time in four columns. What equals `created_at`, which is checked itself and
never null, is as good a time; so nothing else is asked about it. What the file holds does not change, so the text of the
schema is all that is rewritten (sqlite.org/lang_altertable.html, section 7).
"""

import re

ALONE = re.compile(r"\b(scheduled_at|next_run_at|updated_at) IS NULL OR (?=\1 GLOB )")


def up(migrator, db):
    version = db.execute_sql("PRAGMA schema_version").fetchone()[0]
    (old,) = db.execute_sql("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'task'").fetchone()
    db.execute_sql("PRAGMA writable_schema = 1")
    new = ALONE.sub(_or_as_created, old)
    db.execute_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = 'task'", (new,))
    db.execute_sql(f"PRAGMA schema_version = {version + 1}")
    db.execute_sql("PRAGMA writable_schema = 0")


def _or_as_created(found):
    return f"{found[0]}{found[1]} = created_at OR "
