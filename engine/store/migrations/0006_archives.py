"""What retention has taken out of the tables: the files of archives, and what must be remembered of each archived task.

The indexes are for the deletes: without them each task that goes would read every row that might refer to it.
"""

DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"

TABLES = f"""
CREATE TABLE archive (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('events','tasks')),
    file TEXT NOT NULL UNIQUE,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    count INTEGER NOT NULL,
    previous TEXT NOT NULL DEFAULT '',
    hash TEXT NOT NULL DEFAULT '',
    sha256 TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    kept TEXT NOT NULL DEFAULT '',
    cutting INTEGER NOT NULL DEFAULT 0 CHECK (cutting IN (0, 1)),
    created_at TEXT NOT NULL CHECK (created_at GLOB '{UTC_GLOB}')
);
CREATE INDEX archive_of_events ON archive(last) WHERE kind = 'events';
CREATE TABLE archived_task (
    task_id INTEGER PRIMARY KEY,
    archive_id INTEGER NOT NULL REFERENCES archive(id),
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    idempotency_key TEXT
);
CREATE UNIQUE INDEX archived_task_key ON archived_task(idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_parent ON task(parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX task_finished ON task(finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX checkpoint_attempt ON checkpoint(attempt_id);
CREATE INDEX operation_task ON operation(task_id);
CREATE INDEX operation_attempt ON operation(attempt_id);
CREATE INDEX request_of_task ON request(task_id);
CREATE INDEX rollback_step_attempt ON rollback_step(attempt_id);
CREATE INDEX rollback_step_undoes ON rollback_step(undoes) WHERE undoes IS NOT NULL;
DROP TRIGGER event_log_is_append_only_d
"""

TRIGGERS = (
    "CREATE TRIGGER event_log_is_append_only_d BEFORE DELETE ON event_log WHEN NOT EXISTS (SELECT 1 FROM archive"
    " WHERE cutting = 1 AND kind = 'events' AND OLD.event_id BETWEEN first AND last)"
    " BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END",
    "CREATE TRIGGER archive_stays BEFORE DELETE ON archive"
    " BEGIN SELECT RAISE(ABORT, 'what was archived stays on record'); END",
    "CREATE TRIGGER archived_task_stays BEFORE DELETE ON archived_task"
    " BEGIN SELECT RAISE(ABORT, 'what was archived stays on record'); END",
)


def up(migrator, db):
    for statement in TABLES.split(";\n"):
        db.execute_sql(statement)
    for trigger in TRIGGERS:
        db.execute_sql(trigger)
