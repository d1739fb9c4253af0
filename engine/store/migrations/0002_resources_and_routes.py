"""Resources and routes: what only one attempt may use at a time, and network exits with measured health.

Capacity N is N slot rows; each slot is a lease of its own with the six states. Frozen like every migration.
"""

STATES = "'AVAILABLE','LEASED','RUNNING','COOLDOWN','FAULT','DISABLED'"
DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"


def utc(column: str, *, null: bool = True) -> str:
    need = "" if null else " NOT NULL"
    return f"{column} TEXT{need} CHECK ({column} IS NULL OR {column} GLOB '{UTC_GLOB}')"


def slots(table: str, parent: str) -> str:
    return f"""
CREATE TABLE {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    {parent}_id TEXT NOT NULL REFERENCES {parent}({parent}_id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ({STATES})),
    task_id INTEGER REFERENCES task(id),
    lease_owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    {utc("lease_until")},
    lease_until_boot REAL,
    boot_id TEXT,
    {utc("cooldown_until")},
    cooldown_until_boot REAL,
    cooldown_reason TEXT,
    drain INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),
    pending TEXT CHECK (pending IS NULL OR json_valid(pending)),
    uses INTEGER NOT NULL DEFAULT 0,
    {utc("last_used_at")},
    last_error TEXT,
    {utc("updated_at", null=False)},
    UNIQUE ({parent}_id, number),
    CHECK ((state IN ('LEASED','RUNNING')) = (task_id IS NOT NULL))
);
CREATE INDEX {table}_held ON {table}(fence) WHERE state IN ('LEASED','RUNNING');
CREATE INDEX {table}_resting ON {table}(cooldown_until_boot) WHERE state = 'COOLDOWN';
"""


TABLES = f"""
ALTER TABLE task ADD COLUMN needs TEXT CHECK (needs IS NULL OR json_valid(needs));
ALTER TABLE task ADD COLUMN route TEXT;
ALTER TABLE task ADD COLUMN allow_direct INTEGER;
ALTER TABLE task ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1));
ALTER TABLE task ADD COLUMN lane TEXT NOT NULL DEFAULT '';
UPDATE task SET lane = type;
DROP INDEX task_lane;
CREATE INDEX task_lane ON task(lane, effective_priority, next_run_at, id) WHERE state IN ('PENDING','RETRYING');
CREATE TABLE resource (
    resource_id TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT 'unit',
    labels TEXT NOT NULL DEFAULT '{{}}' CHECK (json_valid(labels)),
    capacity INTEGER NOT NULL DEFAULT 1 CHECK (capacity > 0),
    min_reuse REAL NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT 'config',
    config_rev INTEGER NOT NULL DEFAULT 1,
    {utc("removed_at")},
    {utc("updated_at", null=False)}
);
CREATE INDEX resource_pool ON resource(pool);
{slots("resource_slot", "resource")}
CREATE TABLE route (
    route_id TEXT PRIMARY KEY,
    scheme TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER NOT NULL,
    username TEXT NOT NULL DEFAULT '',
    secret_ref TEXT,
    "group" TEXT NOT NULL DEFAULT 'default',
    labels TEXT NOT NULL DEFAULT '{{}}' CHECK (json_valid(labels)),
    capacity INTEGER NOT NULL DEFAULT 1 CHECK (capacity > 0),
    min_reuse REAL NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT 'config',
    expected_ip TEXT,
    expected_regions TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(expected_regions)),
    config_rev INTEGER NOT NULL DEFAULT 1,
    {utc("removed_at")},
    {utc("updated_at", null=False)}
);
CREATE INDEX route_group ON route("group");
{slots("route_slot", "route")}
CREATE TABLE route_health (
    route_id TEXT PRIMARY KEY REFERENCES route(route_id),
    model TEXT NOT NULL DEFAULT '{{}}' CHECK (json_valid(model)),
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
    {utc("exit_seen_at")},
    {utc("last_check_at")},
    {utc("last_ok_at")},
    {utc("next_check_at")},
    next_check_boot REAL,
    boot_id TEXT,
    probe_token TEXT,
    probe_until_boot REAL,
    {utc("updated_at", null=False)}
);
CREATE TABLE route_sample (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    {utc("at", null=False)},
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
    {utc("blocked_until")},
    level INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (route_id, target)
) WITHOUT ROWID;
"""


def up(migrator, db):
    for statement in TABLES.split(";\n"):
        if statement.strip():
            db.execute_sql(statement)
