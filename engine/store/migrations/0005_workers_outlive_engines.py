"""Workers that outlive their engine: further states, what is known of each, and the identity of its commands."""

STATES = "'STARTING','READY','SUSPECT','AWAY','DRAINING','LOST','ENDED'"

CHANGES = f"""
ALTER TABLE worker ADD COLUMN life TEXT NOT NULL DEFAULT 'STARTING' CHECK (life IN ({STATES}));
UPDATE worker SET life = state;
ALTER TABLE worker DROP COLUMN state;
ALTER TABLE worker RENAME COLUMN life TO state;
ALTER TABLE worker ADD COLUMN handlers TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN journal TEXT;
ALTER TABLE worker ADD COLUMN recorded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE worker ADD COLUMN tasks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE worker ADD COLUMN evidence TEXT;
ALTER TABLE attempt ADD COLUMN command_start_time INTEGER
"""
"""`recorded`: the number of the last report of its life. `evidence`: why it is suspect, or away. `tasks`: attempts begun."""


def up(migrator, db):
    for statement in CHANGES.split(";\n"):
        db.execute_sql(statement)
