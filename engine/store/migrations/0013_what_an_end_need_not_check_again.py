"""What begins and ends is written with less: a time that stands in its row twice is checked once, and the index of dates
holds only what is dated.

What changes a task writes the moment of the change as `updated_at`, and often as `started_at` or `finished_at` too; an end
that was told with its beginning writes it into the attempt twice. The check of the other column is enough. `IS` and not `=`:
to compare with NULL gives NULL, which a CHECK lets pass. Most tasks are due when they are added, and who asks what becomes
due next does not look for them; what a clock that ran ahead has added may wait for a moment that comes before that. Of the
checks only the text of the schema is rewritten, since what the file holds does not change
(sqlite.org/lang_altertable.html, section 7).
"""

SAME = {
    "task": (
        "updated_at = created_at OR ",
        ("updated_at IS started_at OR ", "updated_at IS finished_at OR "),
    ),
    "attempt": ("ended_at IS NULL OR ", ("ended_at IS started_at OR ",)),
}
"""For a table, where in its checks is also asked whether a time is the same as another."""


def up(migrator, db):
    version = db.execute_sql("PRAGMA schema_version").fetchone()[0]
    db.execute_sql("PRAGMA writable_schema = 1")
    for table in SAME:
        (old,) = db.execute_sql(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
        new = or_as_others(table, old)
        db.execute_sql("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (new, table))
    db.execute_sql(f"PRAGMA schema_version = {version + 1}")
    db.execute_sql("PRAGMA writable_schema = 0")
    db.execute_sql("DROP INDEX task_due")
    db.execute_sql(
        "CREATE INDEX task_due ON task(next_run_at)"
        " WHERE state IN ('PENDING','RETRYING') AND next_run_at <> created_at"
    )


def or_as_others(table, sql):
    place, others = SAME[table]
    assert sql.count(place) == 1, f"{table} has no such check"
    return sql.replace(place, place + "".join(others))
