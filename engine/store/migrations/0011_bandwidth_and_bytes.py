"""The bandwidth of single tasks; the bytes that the checks of a route have cost."""

STATEMENTS = (
    "ALTER TABLE task ADD COLUMN bandwidth REAL",
    "ALTER TABLE route_health ADD COLUMN probe_bytes INTEGER NOT NULL DEFAULT 0",
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
