"""Holds of types, pools and everything, and processes that could not be ended. Frozen like every migration.

`hold_task` names the tasks that a hold itself has paused, so that its release lets just these go on.
"""

DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"

STATEMENTS = f"""
UPDATE hold SET scope = 'all' WHERE scope = 'queue';
CREATE TABLE hold_task (task_id INTEGER PRIMARY KEY REFERENCES task(id), scope TEXT NOT NULL);
CREATE TABLE leftover (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    task_id INTEGER REFERENCES task(id),
    worker_id INTEGER REFERENCES worker(id),
    found_at TEXT NOT NULL CHECK (found_at GLOB '{UTC_GLOB}'),
    gone_at TEXT CHECK (gone_at IS NULL OR gone_at GLOB '{UTC_GLOB}'),
    UNIQUE (pid, start_time, boot_id)
);
CREATE INDEX leftover_alive ON leftover(id) WHERE gone_at IS NULL
"""


def up(migrator, db):
    for statement in STATEMENTS.split(";\n"):
        if statement.strip():
            db.execute_sql(statement)
