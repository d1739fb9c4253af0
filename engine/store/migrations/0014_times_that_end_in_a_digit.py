"""The quick check on times asks for the last digit: SQLite's parser lets spaces stand before the Z, the pattern refuses them.

What the file holds does not change, so the text of the schema is all that is rewritten (sqlite.org/lang_altertable.html,
section 7).
"""

OPEN = "'????-??-??T??:??:??.??????Z'"
CLOSED = "'????-??-??T??:??:??.?????[0-9]Z'"


def up(migrator, db):
    version = db.execute_sql("PRAGMA schema_version").fetchone()[0]
    db.execute_sql("PRAGMA writable_schema = 1")
    db.execute_sql(
        "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND instr(sql, ?)",
        (OPEN, CLOSED, OPEN),
    )
    db.execute_sql(f"PRAGMA schema_version = {version + 1}")
    db.execute_sql("PRAGMA writable_schema = 0")
