"""What the checks of resources found before they are handed out; the bandwidth of routes.

`until_boot` is in seconds of the boot clock and means something only together with `boot_id`.
"""

DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"

STATEMENTS = (
    "ALTER TABLE route ADD COLUMN bandwidth REAL NOT NULL DEFAULT 0",
    f"""CREATE TABLE resource_ready (
    resource_id TEXT PRIMARY KEY REFERENCES resource(resource_id) ON DELETE CASCADE,
    state TEXT CHECK (state IN ('ready', 'not_ready', 'checking')),
    until_boot REAL,
    until_at TEXT CHECK (until_at IS NULL OR until_at GLOB '{UTC_GLOB}'),
    boot_id TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    detail TEXT NOT NULL DEFAULT '',
    checked_at TEXT CHECK (checked_at IS NULL OR checked_at GLOB '{UTC_GLOB}')
)""",
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
