"""The index of dates holds what is due at another moment than that at which it was added, be it an earlier one.

After a clock that ran ahead was set back, what it added waits for moments that come before those of their additions.
"""


def up(migrator, db):
    db.execute_sql("DROP INDEX task_due")
    db.execute_sql(
        "CREATE INDEX task_due ON task(next_run_at)"
        " WHERE state IN ('PENDING','RETRYING') AND next_run_at <> created_at"
    )
