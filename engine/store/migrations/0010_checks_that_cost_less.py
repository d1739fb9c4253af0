"""The same checks on states and levels, and the same index of what workers hold, in a form that costs a tenth.

SQLite builds the list of `x IN ('a','b','c')` anew for each row where it stands in a CHECK or in the condition of an index:
more than the rest of an UPDATE of `task`, or of an INSERT into `event_log`. `x = 'a' OR x = 'b' …` it just compares. What the
file holds does not change, so the text of the schema is all that is rewritten (sqlite.org/lang_altertable.html, section 7).
"""

import re

TABLES = ("task", "event_log", "resource_slot", "route_slot")
LIST = re.compile(r"\b(\w+) IN \(('\w+'(?:,'\w+'){2,})\)")


def up(migrator, db):
    for table in TABLES:
        (old,) = db.execute_sql(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        new, count = LIST.subn(_compared, old)
        assert count, f"{table} has no such check"
        db.execute_sql("PRAGMA writable_schema = 1")
        db.execute_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (new, table))
        version = db.execute_sql("PRAGMA schema_version").fetchone()[0]
        db.execute_sql(f"PRAGMA schema_version = {version + 1}")
        db.execute_sql("PRAGMA writable_schema = 0")
    db.execute_sql("DROP INDEX task_held")
    db.execute_sql("CREATE INDEX task_held ON task(worker_id) WHERE worker_id IS NOT NULL")


def _compared(found):
    column, values = found[1], found[2].split(",")
    return "(" + " OR ".join(f"{column} = {value}" for value in values) + ")"
