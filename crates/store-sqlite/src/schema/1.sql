CREATE TABLE users (
    id BLOB NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    admin INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id BLOB NOT NULL PRIMARY KEY,
    -- The hash only: the token itself is nowhere.
    hash BLOB NOT NULL UNIQUE,
    user BLOB NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_of_user ON tokens (user, id);

CREATE TABLE uploads (
    id BLOB NOT NULL PRIMARY KEY,
    user BLOB NOT NULL,
    blob TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_by_age ON uploads (at);

CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    -- No reference: a user who is removed leaves jobs behind.
    user BLOB NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('pending', 'running', 'complete', 'error', 'cancelled')),
    paused INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    created INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    ending TEXT,
    spent TEXT NOT NULL,
    last_seq INTEGER NOT NULL,
    upload BLOB REFERENCES uploads (id),
    node BLOB,
    epoch INTEGER NOT NULL,
    -- When the lease runs out. NULL: there is none.
    lease_until INTEGER,
    -- Whether an order to cancel, or to resume, is kept.
    stopping INTEGER NOT NULL DEFAULT 0,
    resuming INTEGER NOT NULL DEFAULT 0,
    -- Where it is counted.
    state TEXT NOT NULL AS (
        CASE WHEN paused AND status IN ('pending', 'running') THEN 'paused' ELSE status END
    ) VIRTUAL,
    -- Whether it waits for a process: NULL, no; 0, to begin; 1, to go on; 2, to be
    -- stopped.
    turn INTEGER AS (
        CASE
            WHEN status NOT IN ('pending', 'running') THEN iif(resuming, 2 * stopping, NULL)
            WHEN stopping THEN 2
            WHEN paused THEN NULL
            WHEN status = 'running' THEN 1
            ELSE 0
        END
    ) VIRTUAL
) STRICT;
CREATE INDEX jobs_by_status ON jobs (status, id);
CREATE INDEX jobs_of_user ON jobs (user, status, id);
CREATE INDEX jobs_of_upload ON jobs (upload) WHERE upload IS NOT NULL;
-- These two hold only what waits or is worked on, however much is over.
CREATE INDEX jobs_waiting ON jobs (user, turn DESC, priority DESC, id)
    WHERE lease_until IS NULL AND turn IS NOT NULL;
CREATE INDEX jobs_leased ON jobs (lease_until, user) WHERE lease_until IS NOT NULL;

-- When each server last leased or renewed anything. What it has begun is left to it
-- as long as it is there: the files of a job are on its server.
CREATE TABLE nodes (
    node BLOB NOT NULL PRIMARY KEY,
    seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When each user last had a turn, counted in turns: users who wait take turns also when
-- none of their jobs runs.
CREATE TABLE served (
    user BLOB PRIMARY KEY,
    turn INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many jobs there are in each state: of each user, and of all under an empty
-- id. Counting them anew would take longer the more are over.
CREATE TABLE tallies (
    user BLOB NOT NULL,
    state TEXT NOT NULL,
    jobs INTEGER NOT NULL CHECK (jobs >= 0),
    PRIMARY KEY (user, state)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_added AFTER INSERT ON jobs BEGIN
    INSERT INTO tallies VALUES (new.user, new.state, 1), (x'', new.state, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER job_changed AFTER UPDATE OF status, paused ON jobs WHEN old.state <> new.state BEGIN
    UPDATE tallies SET jobs = jobs - 1 WHERE user IN (old.user, x'') AND state = old.state;
    INSERT INTO tallies VALUES (new.user, new.state, 1), (x'', new.state, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER job_removed AFTER DELETE ON jobs BEGIN
    UPDATE tallies SET jobs = jobs - 1 WHERE user IN (old.user, x'') AND state = old.state;
END;

CREATE TABLE events (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    -- The record's JSON, byte for byte.
    text TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_of_job ON events (job, seq);

-- Orders that were not heard yet. A number is never used again.
CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX orders_of_job ON orders (job, id);

CREATE TABLE artifacts (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    name TEXT NOT NULL,
    blob TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

-- What makes a repeated submission the same one. No reference: a key outlives its
-- job.
CREATE TABLE keys (
    user BLOB NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    job BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (user, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (at);
