"""Restarts from a kept checkpoint, since when an operation is in doubt, and rollback steps. Frozen like every migration."""

DIGITS = {4: "[0-9][0-9][0-9][0-9]", 2: "[0-9][0-9]", 6: "[0-9][0-9][0-9][0-9][0-9][0-9]"}
UTC_GLOB = f"{DIGITS[4]}-{DIGITS[2]}-{DIGITS[2]}T{DIGITS[2]}:{DIGITS[2]}:{DIGITS[2]}.{DIGITS[6]}Z"


def utc(column: str, *, null: bool = True) -> str:
    need = "" if null else " NOT NULL"
    return f"{column} TEXT{need} CHECK ({column} IS NULL OR {column} GLOB '{UTC_GLOB}')"


TABLES = f"""
ALTER TABLE checkpoint ADD COLUMN again_from INTEGER;
ALTER TABLE operation ADD COLUMN {utc("doubt_at")};
ALTER TABLE operation ADD COLUMN doubt_boot REAL;
ALTER TABLE operation ADD COLUMN doubt_boot_id TEXT;
UPDATE operation SET doubt_at = begun_at WHERE state = 'IN_DOUBT';
ALTER TABLE task ADD COLUMN ending TEXT CHECK (ending IS NULL OR json_valid(ending));
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
    {utc("created_at", null=False)},
    {utc("ended_at")},
    UNIQUE (task_id, number)
);
CREATE INDEX rollback_step_open ON rollback_step(task_id) WHERE state = 'REGISTERED';
"""


def up(migrator, db):
    for statement in TABLES.split(";\n"):
        if statement.strip():
            db.execute_sql(statement)
