-- Names, labels, titles and keys are bytea: they may hold any character, NUL too,
-- and are compared byte by byte. JSON holds no NUL and is text.

CREATE TABLE users (
    id uuid PRIMARY KEY,
    name bytea NOT NULL UNIQUE,
    admin boolean NOT NULL,
    created bigint NOT NULL
);

CREATE TABLE tokens (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    hash bytea NOT NULL UNIQUE,
    label bytea NOT NULL,
    created bigint NOT NULL,
    expires bigint
);
CREATE INDEX tokens_of_user ON tokens (user_id);

CREATE TABLE uploads (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL,
    blob text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    at bigint NOT NULL
);
CREATE INDEX uploads_by_age ON uploads (at);

CREATE TABLE jobs (
    id uuid PRIMARY KEY,
    -- No reference: a user's jobs outlive it.
    user_id uuid NOT NULL,
    title bytea NOT NULL,
    status text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    priority smallint NOT NULL,
    created bigint NOT NULL,
    started bigint,
    ended bigint,
    ending text,
    spent text NOT NULL,
    last_seq bigint NOT NULL,
    upload uuid REFERENCES uploads,
    node uuid,
    epoch bigint NOT NULL DEFAULT 0,
    -- When the lease ends; NULL: nobody works on it.
    leased_until timestamptz,
    -- Whether somebody wants it to stop, or to go on, and it has not heard that.
    stopping boolean NOT NULL DEFAULT false,
    resuming boolean NOT NULL DEFAULT false,
    -- Whether it waits for a process: NULL, no; 0, to begin; 1, to go on; 2, to be
    -- stopped.
    turn smallint GENERATED ALWAYS AS (
        CASE
            WHEN status NOT IN ('pending', 'running') THEN
                CASE WHEN resuming AND stopping THEN 2 WHEN resuming THEN 0 END
            WHEN stopping THEN 2
            WHEN paused THEN NULL
            WHEN status = 'running' THEN 1
            ELSE 0
        END
    ) STORED
-- Room beside each row, so that an appended event moves no index.
) WITH (fillfactor = 70);
CREATE INDEX jobs_of_user ON jobs (user_id, id);
CREATE INDEX jobs_at_status ON jobs (status, id);
CREATE INDEX jobs_of_user_at_status ON jobs (user_id, status, id);
CREATE INDEX jobs_of_upload ON jobs (upload) WHERE upload IS NOT NULL;
CREATE INDEX jobs_leased ON jobs (leased_until, user_id) WHERE leased_until IS NOT NULL;
CREATE INDEX jobs_of_node ON jobs (node) WHERE leased_until IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (user_id, turn DESC, priority DESC, id)
    WHERE turn IS NOT NULL AND leased_until IS NULL;

-- When each server last leased or renewed anything. What it has begun is left to it
-- as long as it is there: the files of a job are on its server.
CREATE TABLE nodes (
    node uuid PRIMARY KEY,
    seen timestamptz NOT NULL
) WITH (fillfactor = 50);

-- When each user last had a turn, counted in turns: users who wait take turns also
-- when none of their jobs runs.
CREATE TABLE served (
    user_id uuid PRIMARY KEY,
    turn bigint NOT NULL
) WITH (fillfactor = 50);
CREATE SEQUENCE turns;

-- How many jobs there are of each kind, so that nobody has to count them: of each
-- user, and of all under the user 0. In shards, by connection, so that those who
-- change it at once seldom wait for each other; a shard alone may be negative.
CREATE TABLE tallies (
    user_id uuid NOT NULL,
    kind text NOT NULL,
    shard integer NOT NULL,
    jobs bigint NOT NULL,
    PRIMARY KEY (user_id, kind, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION kind_of(status text, paused boolean) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN paused AND status IN ('pending', 'running') THEN 'paused' ELSE status END
$$;

CREATE FUNCTION tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In one order for all, so that nobody waits in a circle.
    INSERT INTO cofferdam.tallies AS known (user_id, kind, shard, jobs)
    SELECT who, kind, pg_backend_pid() % shards, sum(change)
    FROM (
        SELECT OLD.user_id AS user_id, cofferdam.kind_of(OLD.status, OLD.paused) AS kind,
            -1 AS change WHERE TG_OP <> 'INSERT'
        UNION ALL
        SELECT NEW.user_id, cofferdam.kind_of(NEW.status, NEW.paused), 1 WHERE TG_OP <> 'DELETE'
    ) AS changes,
    LATERAL (
        VALUES ('00000000-0000-0000-0000-000000000000'::uuid, 64), (user_id, 8)
    ) AS places (who, shards)
    GROUP BY who, kind, shards HAVING sum(change) <> 0 ORDER BY who, kind
    ON CONFLICT (user_id, kind, shard) DO UPDATE SET jobs = known.jobs + excluded.jobs;
    RETURN NULL;
END
$$;

CREATE TRIGGER tally_new AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION tally();
CREATE TRIGGER tally_gone AFTER DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION tally();
CREATE TRIGGER tally_changed AFTER UPDATE OF status, paused ON jobs FOR EACH ROW
    WHEN ((OLD.status, OLD.paused) IS DISTINCT FROM (NEW.status, NEW.paused))
    EXECUTE FUNCTION tally();

CREATE TABLE events (
    job uuid NOT NULL,
    seq bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (job, seq)
);

CREATE TABLE keys (
    user_id uuid NOT NULL,
    key bytea NOT NULL,
    fingerprint bytea NOT NULL,
    job uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, key)
);
CREATE INDEX keys_by_age ON keys (at);

CREATE TABLE orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job uuid NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    -- Whether it was for the job to hear, and whether the job has.
    kept boolean NOT NULL,
    heard boolean NOT NULL,
    -- Tells whoever lost the answer whether the order was given.
    receipt uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX orders_of_job ON orders (job, id);
CREATE INDEX orders_heard ON orders (at) WHERE heard;

CREATE TABLE artifacts (
    job uuid NOT NULL,
    name bytea NOT NULL,
    blob text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (job, name)
);
