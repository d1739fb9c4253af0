-- A database of schema 2 as taskdeck left it, with rows in every table. Frozen.
BEGIN TRANSACTION;
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES task(id),
    number INTEGER NOT NULL,
    worker_id INTEGER NOT NULL REFERENCES worker(id),
    fence INTEGER NOT NULL UNIQUE,
    resumed_from INTEGER NOT NULL DEFAULT 0,
    dispatched_at TEXT NOT NULL CHECK (dispatched_at IS NULL OR dispatched_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    started_at TEXT CHECK (started_at IS NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    command_pid INTEGER,
    outcome TEXT,
    reason TEXT,
    exit_code INTEGER,
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    tail TEXT,
    log_path TEXT,
    UNIQUE (task_id, number)
);
INSERT INTO "attempt" VALUES(1,2,1,1,2,0,'2026-11-01T12:00:02.000000Z','2026-11-01T12:00:02.000000Z',NULL,NULL,NULL,NULL,NULL,NULL,'done
','/logs/2.1.log');
INSERT INTO "attempt" VALUES(2,3,1,2,3,0,'2026-11-01T12:00:03.000000Z','2026-11-01T12:00:03.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/3.1.log');
INSERT INTO "attempt" VALUES(3,4,1,2,4,0,'2026-11-01T12:00:04.000000Z','2026-11-01T12:00:04.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/4.1.log');
INSERT INTO "attempt" VALUES(4,5,1,2,5,0,'2026-11-01T12:00:05.000000Z','2026-11-01T12:00:05.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/5.1.log');
INSERT INTO "attempt" VALUES(5,6,1,2,6,0,'2026-11-01T12:00:06.000000Z','2026-11-01T12:00:06.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/6.1.log');
INSERT INTO "attempt" VALUES(6,7,1,2,7,0,'2026-11-01T12:00:07.000000Z','2026-11-01T12:00:07.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/7.1.log');
INSERT INTO "attempt" VALUES(7,8,1,2,8,0,'2026-11-01T12:00:08.000000Z','2026-11-01T12:00:08.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/8.1.log');
INSERT INTO "attempt" VALUES(8,9,1,1,9,0,'2026-11-01T12:00:09.000000Z','2026-11-01T12:00:09.000000Z',NULL,NULL,NULL,NULL,NULL,NULL,'done
','/logs/9.1.log');
INSERT INTO "attempt" VALUES(9,10,1,2,10,0,'2026-11-01T12:00:10.000000Z','2026-11-01T12:00:10.000000Z','2026-11-01T12:00:40.000000Z',NULL,'succeeded','done',0,NULL,'done
','/logs/10.1.log');
CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL REFERENCES task(id),
    attempt_id INTEGER NOT NULL REFERENCES attempt(id),
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    stage TEXT NOT NULL DEFAULT '',
    data TEXT NOT NULL,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (task_id, seq)
);
INSERT INTO "checkpoint" VALUES(1,2,1,2,1,1,'download','{"page":310}','2026-11-01T12:00:30.000000Z');
CREATE TABLE engine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    incarnation TEXT NOT NULL UNIQUE,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    host TEXT NOT NULL,
    code_version TEXT NOT NULL,
    supervisor_pid INTEGER,
    started_at TEXT NOT NULL CHECK (started_at IS NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    end_reason TEXT
);
INSERT INTO "engine" VALUES(1,'engine-a',4001,11,'boot-a','box','0.1.0',NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:50.000000Z','stopped');
INSERT INTO "engine" VALUES(2,'engine-b',4002,12,'boot-a','box','0.2.0',NULL,'2026-11-01T12:00:51.000000Z',NULL,NULL);
CREATE TABLE event_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    event_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO "event_head" VALUES(1,28,28,'358e1c6c0146a8148e77437a96ed60ae818a914756f7c8e04a3afde35dabd934');
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
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    hash TEXT NOT NULL
);
INSERT INTO "event_log" VALUES(1,NULL,NULL,NULL,NULL,'ENGINE_STARTED','info','started','engine','engine 1, pid 4001',NULL,'2026-11-01T12:00:01.000000Z','bcfbb1adc72c57db333cb83729e40804cea57f4e13d2b0f61bb5434d8f50d13c');
INSERT INTO "event_log" VALUES(2,1,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:02.000000Z','dd7fbf79b7cbcae36d47dbb7bb0299c9e1d74a10854573aee160ca1a0c8d986d');
INSERT INTO "event_log" VALUES(3,2,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:03.000000Z','18d746e775d9eaa6a422e0f190a22efe17f0296380f34a608230d29cb33c1e3e');
INSERT INTO "event_log" VALUES(4,2,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":2}','2026-11-01T12:00:04.000000Z','1112ed392cd90e4f8fe87d2e459a13f8e031fa3b0b295a06ae55f34fa44645f9');
INSERT INTO "event_log" VALUES(5,3,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:05.000000Z','3cda381a74da71917ce3eba2d00f4742acd47cadd43cea0bd1bfd2cf8779d817');
INSERT INTO "event_log" VALUES(6,3,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":3}','2026-11-01T12:00:06.000000Z','2d0d888ace79160794d171d298b20f67eba9bc0a5fc902e41f1cd37b8a95316f');
INSERT INTO "event_log" VALUES(7,3,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"PAUSED","attempt":1,"fence":3}','2026-11-01T12:00:07.000000Z','85fd110038b348980416a890bbff595a9eaa6613f80e8432718455e452bc1877');
INSERT INTO "event_log" VALUES(8,4,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:08.000000Z','8531880b1d9a2fcb98a741745024a2af3719994c22826ee0d396878811e0a598');
INSERT INTO "event_log" VALUES(9,4,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":4}','2026-11-01T12:00:09.000000Z','7286e09dcb7dc355fb7f3ce1e13d9d74e3cee62ca1fb46bdf3f1bde01e9de39f');
INSERT INTO "event_log" VALUES(10,4,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"RETRYING","attempt":1,"fence":4}','2026-11-01T12:00:10.000000Z','cd107cef17eaa97a7613480dc222314a7157ff423e03ef340faddef70e17197e');
INSERT INTO "event_log" VALUES(11,5,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:11.000000Z','f775c52379afc8895bb3c3c20e77a69bd2b88cd8d485539911bb068a2fb1405d');
INSERT INTO "event_log" VALUES(12,5,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":5}','2026-11-01T12:00:12.000000Z','ca87fb9934ecb065686dbed64af7b90e24d19c27018262f87732fb166f7237cd');
INSERT INTO "event_log" VALUES(13,5,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"SUCCESS","attempt":1,"fence":5}','2026-11-01T12:00:13.000000Z','5c522738711c0e6e802feb5facc7d5a7e0cb41a1e2accf15304a76e65ae818f4');
INSERT INTO "event_log" VALUES(14,6,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:14.000000Z','023ae0e923e4ebdcd48907d15963f97c59c0e23ced9114cf370bfc28049d9203');
INSERT INTO "event_log" VALUES(15,6,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":6}','2026-11-01T12:00:15.000000Z','87fa9b3fbe1eaef3e720dc08bd189ba8fdbb0172cdee2149bb8187b687a0a221');
INSERT INTO "event_log" VALUES(16,6,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"FAILED","attempt":1,"fence":6}','2026-11-01T12:00:16.000000Z','610c5e4cc2089d0a60707a19f2cfa81e1fe65a5461eef3fac1f126e4685ae0dd');
INSERT INTO "event_log" VALUES(17,7,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:17.000000Z','be3b2e91e0c1a741f9ae2db4c0118a6bbcb95293ee811f12cc83582f07a975ee');
INSERT INTO "event_log" VALUES(18,7,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":7}','2026-11-01T12:00:18.000000Z','8ea3b7b6ed32a0dabed2b6e9c7e7bf4f2ccba825a55610e11b30589ceddd8c32');
INSERT INTO "event_log" VALUES(19,7,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"DEAD","attempt":1,"fence":7}','2026-11-01T12:00:19.000000Z','21e5583b463fd46abd1e94b16ca6c187ce80e53b4d629de4f4b904c15ddfa3a5');
INSERT INTO "event_log" VALUES(20,8,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:20.000000Z','b9e4220d12554631e18e40b3fd3d74097d92e882922e65be10e8bc720888d74d');
INSERT INTO "event_log" VALUES(21,8,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":8}','2026-11-01T12:00:21.000000Z','4a5865ae72be711334a20e7a1a154aac996d644adbf57c7db273ffaa53ddabc5');
INSERT INTO "event_log" VALUES(22,8,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"CANCELLED","attempt":1,"fence":8}','2026-11-01T12:00:22.000000Z','35e09de3cf5a50dff95305e77f3df5d4d026bb3fb1fa6af49812445b40cd1b7d');
INSERT INTO "event_log" VALUES(23,9,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:23.000000Z','f933598ac49d5664b4c0d53f6692c4e505d1776d329b96b9a3d855479cbb6584');
INSERT INTO "event_log" VALUES(24,9,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":9}','2026-11-01T12:00:24.000000Z','6a25b229be495e617e838f4b7da375f5c64175777ec9ddbb3382932c4f24571c');
INSERT INTO "event_log" VALUES(25,9,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"LOST","attempt":1,"fence":9}','2026-11-01T12:00:25.000000Z','c7aaaec9050f7d5942f59cd42392475b4ff08dc76d487b6ef85470e50fa48cb5');
INSERT INTO "event_log" VALUES(26,10,NULL,NULL,NULL,'TASK_CREATED','info','created','cli:ann','shell','{"type":"shell","priority":100}','2026-11-01T12:00:26.000000Z','ffae75557992e13ac640f6892579d764483acb7e793e6983ce856f07ae6e551a');
INSERT INTO "event_log" VALUES(27,10,NULL,NULL,1,'TASK_STATE','info','dispatched','engine','attempt 1','{"from":"PENDING","to":"RUNNING","attempt":1,"fence":10}','2026-11-01T12:00:27.000000Z','3992a2d76d1434412500338b0da5135ea9510d949feea3fd1dfac31817c56f47');
INSERT INTO "event_log" VALUES(28,10,NULL,NULL,1,'TASK_STATE','info','done','engine','','{"from":"RUNNING","to":"NEEDS_REVIEW","attempt":1,"fence":10}','2026-11-01T12:00:28.000000Z','358e1c6c0146a8148e77437a96ed60ae818a914756f7c8e04a3afde35dabd934');
CREATE TABLE hold (
    scope TEXT PRIMARY KEY,
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
INSERT INTO "hold" VALUES('type:fetch','cli:ann','2026-11-01T12:00:35.000000Z');
CREATE TABLE operation (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    operation_key TEXT NOT NULL,
    task_id INTEGER NOT NULL REFERENCES task(id),
    attempt_id INTEGER NOT NULL REFERENCES attempt(id),
    fence INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('BEGUN','DONE','IN_DOUBT','NOT_DONE')),
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    begun_at TEXT NOT NULL CHECK (begun_at IS NULL OR begun_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (scope, operation_key)
);
INSERT INTO "operation" VALUES(1,'task:2','upload:42',2,1,2,'BEGUN',NULL,'2026-11-01T12:00:31.000000Z',NULL);
INSERT INTO "operation" VALUES(2,'task:5','upload:1',5,4,5,'DONE','{"id":7}','2026-11-01T12:00:31.000000Z','2026-11-01T12:00:32.000000Z');
CREATE TABLE request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    verb TEXT NOT NULL,
    task_id INTEGER REFERENCES task(id),
    args TEXT NOT NULL DEFAULT '{}' CHECK (args IS NULL OR json_valid(args)),
    actor TEXT NOT NULL,
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    not_before TEXT NOT NULL CHECK (not_before IS NULL OR not_before GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    done_at TEXT CHECK (done_at IS NULL OR done_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    outcome TEXT
);
INSERT INTO "request" VALUES(1,'cancel',2,'{}','cli:ann','2026-11-01T12:00:33.000000Z','2026-11-01T12:00:33.000000Z',NULL,NULL);
INSERT INTO "request" VALUES(2,'pause',3,'{}','cli:ann','2026-11-01T12:00:33.000000Z','2026-11-01T12:00:33.000000Z','2026-11-01T12:00:34.000000Z','paused');
CREATE TABLE resource (
    resource_id TEXT PRIMARY KEY,
    pool TEXT NOT NULL,
    kind TEXT NOT NULL DEFAULT 'unit',
    labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
    capacity INTEGER NOT NULL DEFAULT 1 CHECK (capacity > 0),
    min_reuse REAL NOT NULL DEFAULT 0,
    origin TEXT NOT NULL DEFAULT 'config',
    config_rev INTEGER NOT NULL DEFAULT 1,
    removed_at TEXT CHECK (removed_at IS NULL OR removed_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
);
INSERT INTO "resource" VALUES('browser-1','browser','unit','{}',1,0.0,'config',1,NULL,'2026-11-01T12:00:36.000000Z');
CREATE TABLE resource_slot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resource_id TEXT NOT NULL REFERENCES resource(resource_id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('AVAILABLE','LEASED','RUNNING','COOLDOWN','FAULT','DISABLED')),
    task_id INTEGER REFERENCES task(id),
    lease_owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    cooldown_until TEXT CHECK (cooldown_until IS NULL OR cooldown_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    cooldown_until_boot REAL,
    cooldown_reason TEXT,
    drain INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),
    pending TEXT CHECK (pending IS NULL OR json_valid(pending)),
    uses INTEGER NOT NULL DEFAULT 0,
    last_used_at TEXT CHECK (last_used_at IS NULL OR last_used_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_error TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (resource_id, number),
    CHECK ((state IN ('LEASED','RUNNING')) = (task_id IS NOT NULL))
);
INSERT INTO "resource_slot" VALUES(1,'browser-1',1,'RUNNING',2,'1',2,'2026-11-01T12:00:59.000000Z',999.5,'boot-a',NULL,NULL,NULL,0,NULL,0,NULL,NULL,'2026-11-01T12:00:36.000000Z');
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
    removed_at TEXT CHECK (removed_at IS NULL OR removed_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
);
INSERT INTO "route" VALUES('eu-1','http','proxy.example.net',3128,'ann','env:EU_PASSWORD','eu','{}',1,0.0,'config',NULL,'[]',1,NULL,'2026-11-01T12:00:36.000000Z');
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
    exit_seen_at TEXT CHECK (exit_seen_at IS NULL OR exit_seen_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_check_at TEXT CHECK (last_check_at IS NULL OR last_check_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_ok_at TEXT CHECK (last_ok_at IS NULL OR last_ok_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_check_at TEXT CHECK (next_check_at IS NULL OR next_check_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_check_boot REAL,
    boot_id TEXT,
    probe_token TEXT,
    probe_until_boot REAL,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
);
INSERT INTO "route_health" VALUES('eu-1','{}',87.5,120.0,NULL,NULL,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,4,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'2026-11-01T12:00:36.000000Z');
CREATE TABLE route_sample (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    at TEXT NOT NULL CHECK (at IS NULL OR at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    source TEXT NOT NULL,
    stage INTEGER NOT NULL,
    error_type TEXT,
    ms REAL,
    target TEXT
);
INSERT INTO "route_sample" VALUES(1,'eu-1','2026-11-01T12:00:36.000000Z','probe',3,NULL,120.0,NULL);
CREATE TABLE route_slot (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    route_id TEXT NOT NULL REFERENCES route(route_id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('AVAILABLE','LEASED','RUNNING','COOLDOWN','FAULT','DISABLED')),
    task_id INTEGER REFERENCES task(id),
    lease_owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    cooldown_until TEXT CHECK (cooldown_until IS NULL OR cooldown_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    cooldown_until_boot REAL,
    cooldown_reason TEXT,
    drain INTEGER NOT NULL DEFAULT 0 CHECK (drain IN (0, 1)),
    pending TEXT CHECK (pending IS NULL OR json_valid(pending)),
    uses INTEGER NOT NULL DEFAULT 0,
    last_used_at TEXT CHECK (last_used_at IS NULL OR last_used_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_error TEXT,
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    UNIQUE (route_id, number),
    CHECK ((state IN ('LEASED','RUNNING')) = (task_id IS NOT NULL))
);
INSERT INTO "route_slot" VALUES(1,'eu-1',1,'COOLDOWN',NULL,NULL,0,NULL,NULL,'boot-a','2026-11-01T12:00:58.000000Z',998.5,'timeout',0,NULL,0,NULL,NULL,'2026-11-01T12:00:36.000000Z');
CREATE TABLE route_target (
    route_id TEXT NOT NULL REFERENCES route(route_id),
    target TEXT NOT NULL,
    ok INTEGER NOT NULL DEFAULT 0,
    fail INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    consecutive_blocked INTEGER NOT NULL DEFAULT 0,
    blocked_until TEXT CHECK (blocked_until IS NULL OR blocked_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    level INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (route_id, target)
) WITHOUT ROWID;
INSERT INTO "route_target" VALUES('eu-1','example.net',3,0,0,0,NULL,0);
CREATE TABLE "schema_migration" ("id" INTEGER NOT NULL PRIMARY KEY, "name" VARCHAR(255) NOT NULL, "applied" DATETIME NOT NULL);
INSERT INTO "schema_migration" VALUES(1,'0001_first_flight','2026-11-01 12:00:00');
INSERT INTO "schema_migration" VALUES(2,'0002_resources_and_routes','2026-11-01 12:00:00');
CREATE TABLE sequence (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "sequence" VALUES('fence',20);
CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    type TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('PENDING','RUNNING','PAUSED','RETRYING','SUCCESS','FAILED','DEAD','CANCELLED','LOST','NEEDS_REVIEW')),
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 100,
    effective_priority INTEGER NOT NULL DEFAULT 100,
    scheduled_at TEXT NOT NULL CHECK (scheduled_at IS NULL OR scheduled_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    next_run_at TEXT NOT NULL CHECK (next_run_at IS NULL OR next_run_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
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
    lease_until TEXT CHECK (lease_until IS NULL OR lease_until GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    lease_until_boot REAL,
    boot_id TEXT,
    wanted TEXT CHECK (wanted IN ('cancel','pause','resume')),
    progress_done REAL,
    progress_total REAL,
    progress_note TEXT,
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    created_at TEXT NOT NULL CHECK (created_at IS NULL OR created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    started_at TEXT CHECK (started_at IS NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    finished_at TEXT CHECK (finished_at IS NULL OR finished_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    updated_at TEXT NOT NULL CHECK (updated_at IS NULL OR updated_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'), needs TEXT CHECK (needs IS NULL OR json_valid(needs)), route TEXT, allow_direct INTEGER, suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)), lane TEXT NOT NULL DEFAULT '',
    CHECK (state <> 'RUNNING' OR (worker_id IS NOT NULL AND lease_until_boot IS NOT NULL))
);
INSERT INTO "task" VALUES(1,'shell','PENDING','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:01.000000Z','{"argv":["echo","größe"]}','key-1',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z',NULL,NULL,'2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(2,'shell','RUNNING','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:02.000000Z','{"argv":["echo","größe"]}','key-2',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,2,1,'2026-11-01T12:00:59.000000Z',999.5,'boot-a',NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:02.000000Z',NULL,'2026-11-01T12:00:41.000000Z','{"browser":1}',NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(3,'shell','PAUSED','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:03.000000Z','{"argv":["echo","größe"]}','key-3',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,3,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:03.000000Z',NULL,'2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(4,'shell','RETRYING','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:04.000000Z','{"argv":["echo","größe"]}','key-4',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,4,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:04.000000Z',NULL,'2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(5,'shell','SUCCESS','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:05.000000Z','{"argv":["echo","größe"]}','key-5',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,5,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half','{"rows":3}',NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:05.000000Z','2026-11-01T12:00:40.000000Z','2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(6,'shell','FAILED','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:06.000000Z','{"argv":["echo","größe"]}','key-6',NULL,5,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,6,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,'{"class":"fatal","kind":"exit","message":"exit 64","rule":"exit_codes"}','2026-11-01T12:00:00.000000Z','2026-11-01T12:00:06.000000Z','2026-11-01T12:00:40.000000Z','2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(7,'shell','DEAD','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:07.000000Z','{"argv":["echo","größe"]}','key-7',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,7,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:07.000000Z','2026-11-01T12:00:40.000000Z','2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(8,'shell','CANCELLED','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:08.000000Z','{"argv":["echo","größe"]}','key-8',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,8,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:08.000000Z','2026-11-01T12:00:40.000000Z','2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(9,'shell','LOST','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:09.000000Z','{"argv":["echo","größe"]}','key-9',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,9,1,'2026-11-01T12:00:59.000000Z',999.5,'boot-a',NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:09.000000Z',NULL,'2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
INSERT INTO "task" VALUES(10,'shell','NEEDS_REVIEW','created',100,100,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:10.000000Z','{"argv":["echo","größe"]}','key-10',NULL,NULL,'["nightly"]',60.0,3,'review',1,0,0,0,0,0,1,10,NULL,NULL,NULL,NULL,NULL,1.0,2.0,'half',NULL,NULL,'2026-11-01T12:00:00.000000Z','2026-11-01T12:00:10.000000Z',NULL,'2026-11-01T12:00:41.000000Z',NULL,NULL,NULL,0,'shell');
CREATE TABLE task_type (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL DEFAULT '{}' CHECK (settings IS NULL OR json_valid(settings)),
    published_at TEXT NOT NULL CHECK (published_at IS NULL OR published_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
) WITHOUT ROWID;
INSERT INTO "task_type" VALUES('shell','{"name":"shell","origin":"built in"}','2026-11-01T12:00:52.000000Z');
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
    started_at TEXT NOT NULL CHECK (started_at IS NULL OR started_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    last_heartbeat TEXT CHECK (last_heartbeat IS NULL OR last_heartbeat GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    ended_at TEXT CHECK (ended_at IS NULL OR ended_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    end_reason TEXT
);
INSERT INTO "worker" VALUES(1,'worker-a',2,4010,13,'boot-a','box','0.2.0','READY',30000000,'2026-11-01T12:00:52.000000Z','2026-11-01T12:00:53.000000Z',NULL,NULL);
INSERT INTO "worker" VALUES(2,'worker-b',1,4011,14,'boot-a','box','0.1.0','ENDED',NULL,'2026-11-01T12:00:00.000000Z',NULL,'2026-11-01T12:00:50.000000Z','stopped');
CREATE UNIQUE INDEX "schema_migration_name" ON "schema_migration" ("name");
CREATE INDEX worker_live ON worker(id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX task_key ON task(idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_due ON task(next_run_at) WHERE state IN ('PENDING','RETRYING');
CREATE INDEX task_held ON task(worker_id) WHERE state IN ('RUNNING','PAUSED','LOST');
CREATE INDEX task_wanted ON task(id) WHERE wanted IS NOT NULL;
CREATE INDEX task_state ON task(state, id);
CREATE INDEX task_type_id ON task(type, id);
CREATE INDEX attempt_live ON attempt(worker_id) WHERE ended_at IS NULL;
CREATE INDEX operation_open ON operation(task_id) WHERE state IN ('BEGUN','IN_DOUBT');
CREATE INDEX request_open ON request(not_before) WHERE done_at IS NULL;
CREATE INDEX request_task ON request(task_id) WHERE done_at IS NULL;
CREATE INDEX event_task ON event_log(task_id, event_id) WHERE task_id IS NOT NULL;
CREATE TRIGGER event_log_is_append_only_u BEFORE UPDATE ON event_log BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END;
CREATE TRIGGER event_log_is_append_only_d BEFORE DELETE ON event_log BEGIN SELECT RAISE(ABORT, 'event_log is append-only'); END;
CREATE TRIGGER attempt_is_closed_once BEFORE UPDATE ON attempt WHEN OLD.ended_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'an ended attempt is never rewritten'); END;
CREATE TRIGGER fence_only_grows BEFORE UPDATE OF fence ON task WHEN NEW.fence < OLD.fence BEGIN SELECT RAISE(ABORT, 'a fence only grows'); END;
CREATE INDEX task_lane ON task(lane, effective_priority, next_run_at, id) WHERE state IN ('PENDING','RETRYING');
CREATE INDEX resource_pool ON resource(pool);
CREATE INDEX resource_slot_held ON resource_slot(fence) WHERE state IN ('LEASED','RUNNING');
CREATE INDEX resource_slot_resting ON resource_slot(cooldown_until_boot) WHERE state = 'COOLDOWN';
CREATE INDEX route_group ON route("group");
CREATE INDEX route_slot_held ON route_slot(fence) WHERE state IN ('LEASED','RUNNING');
CREATE INDEX route_slot_resting ON route_slot(cooldown_until_boot) WHERE state = 'COOLDOWN';
CREATE INDEX route_sample_of ON route_sample(route_id, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('engine',2);
INSERT INTO "sqlite_sequence" VALUES('worker',2);
INSERT INTO "sqlite_sequence" VALUES('task',10);
INSERT INTO "sqlite_sequence" VALUES('attempt',9);
INSERT INTO "sqlite_sequence" VALUES('checkpoint',1);
INSERT INTO "sqlite_sequence" VALUES('operation',2);
INSERT INTO "sqlite_sequence" VALUES('request',2);
INSERT INTO "sqlite_sequence" VALUES('resource_slot',1);
INSERT INTO "sqlite_sequence" VALUES('route_slot',1);
INSERT INTO "sqlite_sequence" VALUES('route_sample',1);
COMMIT;
PRAGMA user_version = 2;
