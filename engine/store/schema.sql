CREATE TABLE "schema_migration" ("id" INTEGER NOT NULL PRIMARY KEY, "name" VARCHAR(255) NOT NULL, "applied" DATETIME NOT NULL);
CREATE UNIQUE INDEX "schema_migration_name" ON "schema_migration" ("name");
CREATE TABLE engine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation TEXT NOT NULL UNIQUE,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    host TEXT NOT NULL,
    code_version TEXT NOT NULL,
    supervisor_pid INTEGER,
    started_at TEXT NOT NULL CHECK (started_at IS NULL OR started_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(started_at) IS NOT NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(ended_at) IS NOT NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
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
    rss INTEGER,
    started_at TEXT NOT NULL CHECK (started_at IS NULL OR started_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(started_at) IS NOT NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_heartbeat TEXT CHECK (last_heartbeat IS NULL OR last_heartbeat GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_heartbeat) IS NOT NULL OR last_heartbeat GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(ended_at) IS NOT NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    end_reason TEXT
, state TEXT NOT NULL DEFAULT 'STARTING' CHECK (state IN ('STARTING','READY','SUSPECT','AWAY','DRAINING','LOST','ENDED')), handlers TEXT NOT NULL DEFAULT '', journal TEXT, recorded INTEGER NOT NULL DEFAULT 0, tasks INTEGER NOT NULL DEFAULT 0, evidence TEXT);
CREATE INDEX worker_live ON worker(id) WHERE ended_at IS NULL;
CREATE TABLE task_type (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL DEFAULT '{}' CHECK (settings IS NULL OR json_valid(settings)),
    published_at TEXT NOT NULL CHECK (published_at IS NULL OR published_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(published_at) IS NOT NULL OR published_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    state TEXT NOT NULL CHECK ((state = 'PENDING' OR state = 'RUNNING' OR state = 'PAUSED' OR state = 'RETRYING' OR state = 'SUCCESS' OR state = 'FAILED' OR state = 'DEAD' OR state = 'CANCELLED' OR state = 'LOST' OR state = 'NEEDS_REVIEW')),
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 100,
    effective_priority INTEGER NOT NULL DEFAULT 100,
    scheduled_at TEXT NOT NULL CHECK (scheduled_at IS NULL OR scheduled_at = created_at OR scheduled_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(scheduled_at) IS NOT NULL OR scheduled_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_run_at TEXT NOT NULL CHECK (next_run_at IS NULL OR next_run_at = created_at OR next_run_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(next_run_at) IS NOT NULL OR next_run_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    idempotency_key TEXT,
    schedule TEXT,
    parent_id INTEGER REFERENCES task(id),
    tags TEXT NOT NULL DEFAULT '[]' CHECK (tags IS NULL OR json_valid(tags)),
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
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(lease_until) IS NOT NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    wanted TEXT CHECK ((wanted = 'cancel' OR wanted = 'pause' OR wanted = 'resume')),
    progress_done REAL,
    progress_total REAL,
    progress_note TEXT,
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    started_at TEXT CHECK (started_at IS NULL OR started_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(started_at) IS NOT NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    finished_at TEXT CHECK (finished_at IS NULL OR finished_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(finished_at) IS NOT NULL OR finished_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at = created_at OR updated_at IS started_at OR updated_at IS finished_at OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), needs TEXT CHECK (needs IS NULL OR json_valid(needs)), route TEXT, allow_direct INTEGER, suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)), lane TEXT NOT NULL DEFAULT '', ending TEXT CHECK (ending IS NULL OR json_valid(ending)), target TEXT NOT NULL DEFAULT '', bandwidth REAL,
    CHECK (state <> 'RUNNING' OR (worker_id IS NOT NULL AND lease_until_boot IS NOT NULL))
);
CREATE UNIQUE INDEX task_key ON task(idempotency_key) WHERE idempotency_key IS NOT NULL;
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
    dispatched_at TEXT NOT NULL CHECK (dispatched_at IS NULL OR dispatched_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(dispatched_at) IS NOT NULL OR dispatched_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    started_at TEXT CHECK (started_at IS NULL OR started_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(started_at) IS NOT NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at IS started_at OR ended_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(ended_at) IS NOT NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    command_pid INTEGER,
    outcome TEXT,
    reason TEXT,
    exit_code INTEGER,
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    tail TEXT,
    log_path TEXT, command_start_time INTEGER,
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
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), again_from INTEGER,
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
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    begun_at TEXT NOT NULL CHECK (begun_at IS NULL OR begun_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(begun_at) IS NOT NULL OR begun_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(ended_at) IS NOT NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), doubt_at TEXT CHECK (doubt_at IS NULL OR doubt_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(doubt_at) IS NOT NULL OR doubt_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), doubt_boot REAL, doubt_boot_id TEXT,
    UNIQUE (scope, operation_key)
);
CREATE INDEX operation_open ON operation(task_id) WHERE state IN ('BEGUN','IN_DOUBT');
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    verb TEXT NOT NULL,
    task_id INTEGER REFERENCES task(id),
    args TEXT NOT NULL DEFAULT '{}' CHECK (args IS NULL OR json_valid(args)),
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    not_before TEXT NOT NULL CHECK (not_before IS NULL OR not_before GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(not_before) IS NOT NULL OR not_before GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    done_at TEXT CHECK (done_at IS NULL OR done_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(done_at) IS NOT NULL OR done_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    outcome TEXT
);
CREATE INDEX request_open ON request(not_before) WHERE done_at IS NULL;
CREATE INDEX request_task ON request(task_id) WHERE done_at IS NULL;
CREATE TABLE hold (
    scope TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
CREATE TABLE sequence (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE event_log (
    event_id INTEGER PRIMARY KEY,
    task_id INTEGER,
    resource_id TEXT,
    route_id TEXT,
    worker_id INTEGER,
    event_type TEXT NOT NULL,
    level TEXT NOT NULL CHECK ((level = 'debug' OR level = 'info' OR level = 'warning' OR level = 'error')),
    reason TEXT,
    actor TEXT NOT NULL,
    message TEXT NOT NULL,
    payload_json TEXT,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    hash TEXT NOT NULL
);
CREATE INDEX event_task ON event_log(task_id, event_id) WHERE task_id IS NOT NULL;
CREATE TABLE event_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    event_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL
);
CREATE TRIGGER event_log_is_append_only_u BEFORE UPDATE ON event_log BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END;
CREATE TRIGGER attempt_is_closed_once BEFORE UPDATE ON attempt WHEN OLD.ended_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'an ended attempt is never rewritten'); END;
CREATE TRIGGER fence_only_grows BEFORE UPDATE OF fence ON task WHEN NEW.fence < OLD.fence BEGIN SELECT RAISE(ABORT, 'a fence only grows'); END;
CREATE INDEX task_lane ON task(lane, effective_priority, next_run_at, id) WHERE state IN ('PENDING','RETRYING');
CREATE TABLE resource (
    resource_id TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT 'unit',
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
    capacity INTEGER NOT NULL DEFAULT 1 CHECK (capacity > 0),
    min_reuse REAL NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT 'config',
    config_rev INTEGER NOT NULL DEFAULT 1,
    removed_at TEXT CHECK (removed_at IS NULL OR removed_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(removed_at) IS NOT NULL OR removed_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
, max_uses INTEGER, max_age REAL, route_id TEXT, route_soft INTEGER NOT NULL DEFAULT 0 CHECK (route_soft IN (0, 1)));
CREATE INDEX resource_pool ON resource(pool);
CREATE TABLE resource_slot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resource_id TEXT NOT NULL REFERENCES resource(resource_id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK ((state = 'AVAILABLE' OR state = 'LEASED' OR state = 'RUNNING' OR state = 'COOLDOWN' OR state = 'FAULT' OR state = 'DISABLED')),
    task_id INTEGER REFERENCES task(id),
    lease_owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(lease_until) IS NOT NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    cooldown_until TEXT CHECK (cooldown_until IS NULL OR cooldown_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(cooldown_until) IS NOT NULL OR cooldown_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    cooldown_until_boot REAL,
    cooldown_reason TEXT,
    drain INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),
    pending TEXT CHECK (pending IS NULL OR json_valid(pending)),
    uses INTEGER NOT NULL DEFAULT 0,
    last_used_at TEXT CHECK (last_used_at IS NULL OR last_used_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_used_at) IS NOT NULL OR last_used_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_error TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), fresh_since TEXT CHECK (fresh_since IS NULL OR fresh_since GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(fresh_since) IS NOT NULL OR fresh_since GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), recheck_boot REAL, rechecks INTEGER NOT NULL DEFAULT 0,
    UNIQUE (resource_id, number),
    CHECK ((state IN ('LEASED','RUNNING')) = (task_id IS NOT NULL))
);
CREATE INDEX resource_slot_held ON resource_slot(fence) WHERE state IN ('LEASED','RUNNING');
CREATE INDEX resource_slot_resting ON resource_slot(cooldown_until_boot) WHERE state = 'COOLDOWN';
CREATE TABLE route (
    route_id TEXT PRIMARY KEY,
    scheme TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    username TEXT NOT NULL DEFAULT '',
    secret_ref TEXT,
    "group" TEXT NOT NULL DEFAULT 'default',
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
    capacity INTEGER NOT NULL DEFAULT 1 CHECK (capacity > 0),
    min_reuse REAL NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT 'config',
    expected_ip TEXT,
    expected_regions TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(expected_regions)),
    config_rev INTEGER NOT NULL DEFAULT 1,
    removed_at TEXT CHECK (removed_at IS NULL OR removed_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(removed_at) IS NOT NULL OR removed_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
, max_uses INTEGER, max_age REAL, ip_policy TEXT NOT NULL DEFAULT 'sticky', bandwidth REAL NOT NULL DEFAULT 0);
CREATE INDEX route_group ON route("group");
CREATE TABLE route_slot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK ((state = 'AVAILABLE' OR state = 'LEASED' OR state = 'RUNNING' OR state = 'COOLDOWN' OR state = 'FAULT' OR state = 'DISABLED')),
    task_id INTEGER REFERENCES task(id),
    lease_owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(lease_until) IS NOT NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    cooldown_until TEXT CHECK (cooldown_until IS NULL OR cooldown_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(cooldown_until) IS NOT NULL OR cooldown_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    cooldown_until_boot REAL,
    cooldown_reason TEXT,
    drain INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),
    pending TEXT CHECK (pending IS NULL OR json_valid(pending)),
    uses INTEGER NOT NULL DEFAULT 0,
    last_used_at TEXT CHECK (last_used_at IS NULL OR last_used_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_used_at) IS NOT NULL OR last_used_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_error TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), fresh_since TEXT CHECK (fresh_since IS NULL OR fresh_since GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(fresh_since) IS NOT NULL OR fresh_since GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), recheck_boot REAL, rechecks INTEGER NOT NULL DEFAULT 0,
    UNIQUE (route_id, number),
    CHECK ((state IN ('LEASED','RUNNING')) = (task_id IS NOT NULL))
);
CREATE INDEX route_slot_held ON route_slot(fence) WHERE state IN ('LEASED','RUNNING');
CREATE INDEX route_slot_resting ON route_slot(cooldown_until_boot) WHERE state = 'COOLDOWN';
CREATE TABLE route_health (
    route_id TEXT PRIMARY KEY REFERENCES route(route_id),
    model TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(model)),
    score REAL,
    latency_ms REAL,
    tcp_ms REAL,
    probe_ms REAL,
    exit_ms REAL,
    consecutive_successes INTEGER NOT NULL DEFAULT 0,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    recent_timeouts INTEGER NOT NULL DEFAULT 0,
    cooldown_level INTEGER NOT NULL DEFAULT 0,
    degraded INTEGER NOT NULL DEFAULT 0,
    last_stage INTEGER,
    last_error_type TEXT,
    last_error_detail TEXT,
    exit_ip TEXT,
    exit_region TEXT,
    checks INTEGER NOT NULL DEFAULT 0,
    exit_seen_at TEXT CHECK (exit_seen_at IS NULL OR exit_seen_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(exit_seen_at) IS NOT NULL OR exit_seen_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_check_at TEXT CHECK (last_check_at IS NULL OR last_check_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_check_at) IS NOT NULL OR last_check_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_ok_at TEXT CHECK (last_ok_at IS NULL OR last_ok_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_ok_at) IS NOT NULL OR last_ok_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_check_at TEXT CHECK (next_check_at IS NULL OR next_check_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(next_check_at) IS NOT NULL OR next_check_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_check_boot REAL,
    boot_id TEXT,
    probe_token TEXT,
    probe_until_boot REAL,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
, probe_rev INTEGER, region_source TEXT, verified INTEGER CHECK (verified IN (0, 1)), probe_bytes INTEGER NOT NULL DEFAULT 0);
CREATE TABLE route_sample (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    at TEXT NOT NULL CHECK (at IS NULL OR at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(at) IS NOT NULL OR at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    source TEXT NOT NULL,
    stage INTEGER NOT NULL,
    error_type TEXT,
    ms REAL,
    target TEXT
);
CREATE INDEX route_sample_of ON route_sample(route_id, id);
CREATE TABLE route_target (
    route_id TEXT NOT NULL REFERENCES route(route_id),
    target TEXT NOT NULL,
    ok INTEGER NOT NULL DEFAULT 0,
    fail INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    consecutive_blocked INTEGER NOT NULL DEFAULT 0,
    blocked_until TEXT CHECK (blocked_until IS NULL OR blocked_until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(blocked_until) IS NOT NULL OR blocked_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    level INTEGER NOT NULL DEFAULT 0, blocked_until_boot REAL, blocked_boot REAL, reached_boot REAL, boot_id TEXT, last_blocked_at TEXT CHECK (last_blocked_at IS NULL OR last_blocked_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_blocked_at) IS NOT NULL OR last_blocked_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), last_reached_at TEXT CHECK (last_reached_at IS NULL OR last_reached_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_reached_at) IS NOT NULL OR last_reached_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    PRIMARY KEY (route_id, target)
) WITHOUT ROWID;
CREATE TABLE rollback_step (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES task(id),
    attempt_id INTEGER NOT NULL REFERENCES attempt(id),
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL CHECK (json_valid(arguments)),
    repeatable INTEGER NOT NULL DEFAULT 0 CHECK (repeatable IN (0, 1)),
    undoes INTEGER REFERENCES operation(id),
    state TEXT NOT NULL DEFAULT 'REGISTERED' CHECK (state IN ('REGISTERED','DONE','DROPPED')),
    tried INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(ended_at) IS NOT NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (task_id, number)
);
CREATE INDEX rollback_step_open ON rollback_step(task_id) WHERE state = 'REGISTERED';
CREATE TABLE hold_task (task_id INTEGER PRIMARY KEY REFERENCES task(id), scope TEXT NOT NULL);
CREATE TABLE leftover (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    task_id INTEGER REFERENCES task(id),
    worker_id INTEGER REFERENCES worker(id),
    found_at TEXT NOT NULL CHECK (found_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(found_at) IS NOT NULL OR found_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    gone_at TEXT CHECK (gone_at IS NULL OR gone_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(gone_at) IS NOT NULL OR gone_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (pid, start_time, boot_id)
);
CREATE INDEX leftover_alive ON leftover(id) WHERE gone_at IS NULL
;
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
    created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(created_at) IS NOT NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
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
CREATE TRIGGER event_log_is_append_only_d BEFORE DELETE ON event_log WHEN NOT EXISTS (SELECT 1 FROM archive WHERE cutting = 1 AND kind = 'events' AND OLD.event_id BETWEEN first AND last) BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END;
CREATE TRIGGER archive_stays BEFORE DELETE ON archive BEGIN SELECT RAISE(ABORT, 'what was archived stays on record'); END;
CREATE TRIGGER archived_task_stays BEFORE DELETE ON archived_task BEGIN SELECT RAISE(ABORT, 'what was archived stays on record'); END;
CREATE INDEX route_target_blocked ON route_target(target) WHERE blocked_until IS NOT NULL;
CREATE INDEX route_target_by_target ON route_target(target);
CREATE INDEX task_target ON task(type, target) WHERE state IN ('RUNNING','LOST') AND target <> '';
CREATE TABLE circuit (
    type TEXT NOT NULL,
    target TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    level INTEGER NOT NULL DEFAULT 0,
    cause TEXT,
    opened_fence INTEGER,
    opened_at TEXT CHECK (opened_at IS NULL OR opened_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(opened_at) IS NOT NULL OR opened_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    until TEXT CHECK (until IS NULL OR until GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(until) IS NOT NULL OR until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    until_boot REAL,
    last_boot REAL,
    boot_id TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    PRIMARY KEY (type, target)
) WITHOUT ROWID;
CREATE TABLE affinity (
    key TEXT PRIMARY KEY,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    hard INTEGER NOT NULL DEFAULT 0 CHECK (hard IN (0, 1)),
    expires_at TEXT NOT NULL CHECK (expires_at IS NULL OR expires_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(expires_at) IS NOT NULL OR expires_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
CREATE TABLE group_state (
    name TEXT PRIMARY KEY,
    frozen_at TEXT CHECK (frozen_at IS NULL OR frozen_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(frozen_at) IS NOT NULL OR frozen_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    frozen_reason TEXT,
    last_route TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
CREATE TABLE probe_url (
    url TEXT PRIMARY KEY,
    ok INTEGER NOT NULL DEFAULT 0,
    fail INTEGER NOT NULL DEFAULT 0,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    last_ok_at TEXT CHECK (last_ok_at IS NULL OR last_ok_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(last_ok_at) IS NOT NULL OR last_ok_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_error TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(updated_at) IS NOT NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
CREATE TABLE standing_alert (
    reason TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    since TEXT NOT NULL CHECK (since IS NULL OR since GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(since) IS NOT NULL OR since GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    PRIMARY KEY (reason, subject)
) WITHOUT ROWID
;
CREATE TABLE resource_ready (
    resource_id TEXT PRIMARY KEY REFERENCES resource(resource_id) ON DELETE CASCADE,
    state TEXT CHECK (state IN ('ready', 'not_ready', 'checking')),
    until_boot REAL,
    until_at TEXT CHECK (until_at IS NULL OR until_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(until_at) IS NOT NULL OR until_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    boot_id TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    detail TEXT NOT NULL DEFAULT '',
    checked_at TEXT CHECK (checked_at IS NULL OR checked_at GLOB '????-??-??T??:??:??.?????[0-9]Z' AND julianday(checked_at) IS NOT NULL OR checked_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
);
CREATE INDEX task_held ON task(worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX task_due ON task(next_run_at) WHERE state IN ('PENDING','RETRYING') AND next_run_at <> created_at;
INSERT INTO "event_head" VALUES(1,0,0,'');
INSERT INTO "sequence" VALUES('fence',0);
INSERT INTO schema_migration(name, applied) VALUES ('0001_first_flight', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0002_resources_and_routes', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0003_restarts_doubt_and_rollback', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0004_holds_and_leftovers', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0005_workers_outlive_engines', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0006_archives', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0007_targets_and_bindings', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0008_what_checks_found', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0009_ready_and_bandwidth', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0010_checks_that_cost_less', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0011_bandwidth_and_bytes', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0012_times_that_are_checked_faster', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
INSERT INTO schema_migration(name, applied) VALUES ('0013_what_an_end_need_not_check_again', strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime'));
