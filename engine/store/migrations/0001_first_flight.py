"""The first schema: tasks, attempts, workers, checkpoints, operations, requests and the audit.

Written as plain DDL and frozen: models may move on, this file never does. Times are UTC text of one width, held by CHECKs;
the audit is append-only, attempts are closed once, both held by triggers.
"""

STATES = "'PENDING','RUNNING','PAUSED','RETRYING','SUCCESS','FAILED','DEAD','CANCELLED','LOST','NEEDS_REVIEW'"
DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"


def utc(column: str, *, null: bool = True) -> str:
    need = "" if null else " NOT NULL"
    return f"{column} TEXT{need} CHECK ({column} IS NULL OR {column} GLOB '{UTC_GLOB}')"


def json(column: str, *, default: str | None = None) -> str:
    rule = f"CHECK ({column} IS NULL OR json_valid({column}))"
    return (
        f"{column} TEXT {rule}" if default is None else f"{column} TEXT NOT NULL DEFAULT '{default}' {rule}"
    )


TABLES = f"""
CREATE TABLE engine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation TEXT NOT NULL UNIQUE,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    host TEXT NOT NULL,
    code_version TEXT NOT NULL,
    supervisor_pid INTEGER,
    {utc("started_at", null=False)},
    {utc("ended_at")},
    end_reason TEXT
);
CREATE TABLE worker (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation TEXT NOT NULL UNIQUE,
    engine_id INTEGER NOT NULL REFERENCES engine(id),
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    host TEXT NOT NULL,
    code_version TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('STARTING','READY','SUSPECT','LOST','ENDED')),
    rss INTEGER,
    {utc("started_at", null=False)},
    {utc("last_heartbeat")},
    {utc("ended_at")},
    end_reason TEXT
);
CREATE INDEX worker_live ON worker(id) WHERE ended_at IS NULL;
CREATE TABLE task_type (
    name TEXT PRIMARY KEY,
    {json("settings", default="{}")},
    {utc("published_at", null=False)}
) WITHOUT ROWID;
CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ({STATES})),
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 100,
    effective_priority INTEGER NOT NULL DEFAULT 100,
    {utc("scheduled_at", null=False)},
    {utc("next_run_at", null=False)},
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    idempotency_key TEXT,
    schedule TEXT,
    parent_id INTEGER REFERENCES task(id),
    {json("tags", default="[]")},
    timeout REAL,
    max_retry INTEGER,
    on_lost TEXT CHECK (on_lost IN ('rerun','review')),
    retry_count INTEGER NOT NULL DEFAULT 0,
    delays INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    losses_total INTEGER NOT NULL DEFAULT 0,
    waits INTEGER NOT NULL DEFAULT 0,
    resource_faults INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    worker_id INTEGER REFERENCES worker(id),
    {utc("lease_until")},
    lease_until_boot REAL,
    boot_id TEXT,
    wanted TEXT CHECK (wanted IN ('cancel','pause','resume')),
    progress_done REAL,
    progress_total REAL,
    progress_note TEXT,
    {json("result")},
    {json("error")},
    {utc("created_at", null=False)},
    {utc("started_at")},
    {utc("finished_at")},
    {utc("updated_at", null=False)},
    CHECK (state <> 'RUNNING' OR (worker_id IS NOT NULL AND lease_until_boot IS NOT NULL))
);
CREATE UNIQUE INDEX task_key ON task(idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_lane ON task(type, effective_priority, next_run_at, id) WHERE state IN ('PENDING','RETRYING');
CREATE INDEX task_due ON task(next_run_at) WHERE state IN ('PENDING','RETRYING');
CREATE INDEX task_held ON task(worker_id) WHERE state IN ('RUNNING','PAUSED','LOST');
CREATE INDEX task_wanted ON task(id) WHERE wanted IS NOT NULL;
CREATE INDEX task_state ON task(state, id);
CREATE INDEX task_type_id ON task(type, id);
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES task(id),
    number INTEGER NOT NULL,
    worker_id INTEGER NOT NULL REFERENCES worker(id),
    fence INTEGER NOT NULL UNIQUE,
    resumed_from INTEGER NOT NULL DEFAULT 0,
    {utc("dispatched_at", null=False)},
    {utc("started_at")},
    {utc("ended_at")},
    command_pid INTEGER,
    outcome TEXT,
    reason TEXT,
    exit_code INTEGER,
    {json("error")},
    tail TEXT,
    log_path TEXT,
    UNIQUE (task_id, number)
);
CREATE INDEX attempt_live ON attempt(worker_id) WHERE ended_at IS NULL;
CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES task(id),
    attempt_id INTEGER NOT NULL REFERENCES attempt(id),
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    stage TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL,
    {utc("created_at", null=False)},
    UNIQUE (task_id, seq)
);
CREATE TABLE operation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    operation_key TEXT NOT NULL,
    task_id INTEGER NOT NULL REFERENCES task(id),
    attempt_id INTEGER NOT NULL REFERENCES attempt(id),
    fence INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('BEGUN','DONE','IN_DOUBT','NOT_DONE')),
    {json("result")},
    {utc("begun_at", null=False)},
    {utc("ended_at")},
    UNIQUE (scope, operation_key)
);
CREATE INDEX operation_open ON operation(task_id) WHERE state IN ('BEGUN','IN_DOUBT');
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    verb TEXT NOT NULL,
    task_id INTEGER REFERENCES task(id),
    {json("args", default="{}")},
    actor TEXT NOT NULL,
    {utc("created_at", null=False)},
    {utc("not_before", null=False)},
    {utc("done_at")},
    outcome TEXT
);
CREATE INDEX request_open ON request(not_before) WHERE done_at IS NULL;
CREATE INDEX request_task ON request(task_id) WHERE done_at IS NULL;
CREATE TABLE hold (
    scope TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    {utc("created_at", null=False)}
) WITHOUT ROWID;
CREATE TABLE sequence (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO sequence VALUES ('fence', 0);
CREATE TABLE event_log (
    event_id INTEGER PRIMARY KEY,
    task_id INTEGER,
    resource_id TEXT,
    route_id TEXT,
    worker_id INTEGER,
    event_type TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('debug','info','warning','error')),
    reason TEXT,
    actor TEXT NOT NULL,
    message TEXT NOT NULL,
    payload_json TEXT,
    {utc("created_at", null=False)},
    hash TEXT NOT NULL
);
CREATE INDEX event_task ON event_log(task_id, event_id) WHERE task_id IS NOT NULL;
CREATE TABLE event_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    event_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO event_head VALUES (1, 0, 0, '');
"""

TRIGGERS = (
    "CREATE TRIGGER event_log_is_append_only_u BEFORE UPDATE ON event_log "
    "BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END",
    "CREATE TRIGGER event_log_is_append_only_d BEFORE DELETE ON event_log "
    "BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END",
    "CREATE TRIGGER attempt_is_closed_once BEFORE UPDATE ON attempt WHEN OLD.ended_at IS NOT NULL "
    "BEGIN SELECT RAISE(ABORT, 'an ended attempt is never rewritten'); END",
    "CREATE TRIGGER fence_only_grows BEFORE UPDATE OF fence ON task WHEN NEW.fence < OLD.fence "
    "BEGIN SELECT RAISE(ABORT, 'a fence only grows'); END",
)


def up(migrator, db):
    for statement in TABLES.split(";\n"):
        if statement.strip():
            db.execute_sql(statement)
    for trigger in TRIGGERS:
        db.execute_sql(trigger)
