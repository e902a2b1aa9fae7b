-- Erasures of the entries and prospects of a person (store/erasures/jobs.go). rule contains personal
-- data, and is null once everything that it selects was erased. stage, position_key and position_text
-- are where the job continues.
CREATE TABLE erasure_jobs (
    tenant_id     BYTEA            NOT NULL,
    erasure_id    BYTEA            NOT NULL,
    account_id    BYTEA,
    rule          BYTEA,
    stage         BIGINT           NOT NULL,
    position_key  BIGINT           NOT NULL,
    position_text TEXT COLLATE "C" NOT NULL,
    entries       BIGINT           NOT NULL,
    prospects     BIGINT           NOT NULL,
    actor         TEXT COLLATE "C" NOT NULL,
    created_at    BIGINT           NOT NULL,
    completed_at  BIGINT,
    PRIMARY KEY (tenant_id, erasure_id)
);

-- The erasure_jobs that are not complete.
CREATE TABLE pending_erasures (
    tenant_id  BYTEA NOT NULL,
    erasure_id BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id)
);

ALTER TABLE erasure_jobs ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
ALTER TABLE pending_erasures ALTER COLUMN tenant_id SET (n_distinct = 1);

-- A key that may erase accounts may erase persons.
UPDATE api_keys SET scopes = scopes || ' manage:erase' WHERE ' ' || scopes || ' ' LIKE '% manage:accounts %';
