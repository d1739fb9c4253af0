"""What routes need beyond their health: targets and circuits, bindings, wear, frozen groups, and alerts that stand.

`*_boot` are seconds of the boot clock and mean something only together with the `boot_id` of their row.
"""

DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"


def utc(column: str, *, null: bool = True) -> str:
    need = "" if null else " NOT NULL"
    return f"{column} TEXT{need} CHECK ({column} IS NULL OR {column} GLOB '{UTC_GLOB}')"


WEAR = "".join(
    f"""
ALTER TABLE {parent} ADD COLUMN max_uses INTEGER;
ALTER TABLE {parent} ADD COLUMN max_age REAL;
ALTER TABLE {parent}_slot ADD COLUMN {utc("fresh_since")};
ALTER TABLE {parent}_slot ADD COLUMN recheck_boot REAL;
ALTER TABLE {parent}_slot ADD COLUMN rechecks INTEGER NOT NULL DEFAULT 0;
UPDATE {parent}_slot SET fresh_since = updated_at;
"""
    for parent in ("resource", "route")
)

TABLES = f"""
ALTER TABLE task ADD COLUMN target TEXT NOT NULL DEFAULT '';
{WEAR}
ALTER TABLE resource ADD COLUMN route_id TEXT;
ALTER TABLE resource ADD COLUMN route_soft INTEGER NOT NULL DEFAULT 0 CHECK (route_soft IN (0, 1));
ALTER TABLE route ADD COLUMN ip_policy TEXT NOT NULL DEFAULT 'sticky';
ALTER TABLE route_health ADD COLUMN probe_rev INTEGER;
ALTER TABLE route_target ADD COLUMN blocked_until_boot REAL;
ALTER TABLE route_target ADD COLUMN blocked_boot REAL;
ALTER TABLE route_target ADD COLUMN reached_boot REAL;
ALTER TABLE route_target ADD COLUMN boot_id TEXT;
ALTER TABLE route_target ADD COLUMN {utc("last_blocked_at")};
ALTER TABLE route_target ADD COLUMN {utc("last_reached_at")};
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
    {utc("opened_at")},
    {utc("until")},
    until_boot REAL,
    last_boot REAL,
    boot_id TEXT,
    {utc("updated_at", null=False)},
    PRIMARY KEY (type, target)
) WITHOUT ROWID;
CREATE TABLE affinity (
    key TEXT PRIMARY KEY,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    hard INTEGER NOT NULL DEFAULT 0 CHECK (hard IN (0, 1)),
    {utc("expires_at", null=False)},
    {utc("updated_at", null=False)}
) WITHOUT ROWID;
CREATE TABLE group_state (
    name TEXT PRIMARY KEY,
    {utc("frozen_at")},
    frozen_reason TEXT,
    last_route TEXT,
    {utc("updated_at", null=False)}
) WITHOUT ROWID;
CREATE TABLE probe_url (
    url TEXT PRIMARY KEY,
    ok INTEGER NOT NULL DEFAULT 0,
    fail INTEGER NOT NULL DEFAULT 0,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    {utc("last_ok_at")},
    last_error TEXT,
    {utc("updated_at", null=False)}
) WITHOUT ROWID;
CREATE TABLE standing_alert (
    reason TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    {utc("since", null=False)},
    PRIMARY KEY (reason, subject)
) WITHOUT ROWID
"""


def up(migrator, db):
    for statement in TABLES.split(";\n"):
        if statement.strip():
            db.execute_sql(statement)
