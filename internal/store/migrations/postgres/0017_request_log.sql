-- Requests that were refused or failed (store/requestlog): the newest of each tenant. count is how many
-- equal ones a row stands for. faults is JSON.
CREATE TABLE refused_requests (
    tenant_id  BYTEA            NOT NULL,
    at         BIGINT           NOT NULL,
    refused_id BYTEA            NOT NULL,
    count      BIGINT           NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    method     TEXT COLLATE "C" NOT NULL,
    route      TEXT COLLATE "C" NOT NULL,
    status     BIGINT           NOT NULL,
    code       TEXT COLLATE "C" NOT NULL,
    detail     TEXT COLLATE "C" NOT NULL,
    faults     BYTEA            NOT NULL,
    key_id     BYTEA,
    user_id    BYTEA,
    user_agent TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, at, refused_id)
);

ALTER TABLE refused_requests ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005

-- Requests that have read personal data. subject is null for lists and exports.
CREATE TABLE reads (
    tenant_id  BYTEA            NOT NULL,
    at         BIGINT           NOT NULL,
    read_id    BYTEA            NOT NULL,
    count      BIGINT           NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C",
    route      TEXT COLLATE "C" NOT NULL,
    actor      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, at, read_id)
);

CREATE INDEX reads_by_subject ON reads (tenant_id, subject, at, read_id) WHERE subject IS NOT NULL;
CREATE INDEX reads_by_actor ON reads (tenant_id, actor, at, read_id);

ALTER TABLE reads ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
