"""Whose word a route's region is, and whether the last passed check proved that no proxy answered in the judge's place."""

STATEMENTS = (
    "ALTER TABLE route_health ADD COLUMN region_source TEXT",
    "ALTER TABLE route_health ADD COLUMN verified INTEGER CHECK (verified IN (0, 1))",
)


def up(migrator, db):
    for statement in STATEMENTS:
        db.execute_sql(statement)
