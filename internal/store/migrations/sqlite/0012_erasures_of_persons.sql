-- Erasures of the entries and prospects of a person (store/erasures/jobs.go). rule contains personal
-- data, and is null once everything that it selects was erased. stage, position_key and position_text
-- are where the job continues.
CREATE TABLE erasure_jobs (
    tenant_id     BLOB    NOT NULL,
    erasure_id    BLOB    NOT NULL,
    account_id    BLOB,
    rule          BLOB,
    stage         INTEGER NOT NULL,
    position_key  INTEGER NOT NULL,
    position_text TEXT    NOT NULL,
    entries       INTEGER NOT NULL,
    prospects     INTEGER NOT NULL,
    actor         TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    PRIMARY KEY (tenant_id, erasure_id)
) STRICT, WITHOUT ROWID;

-- The erasure_jobs that are not complete.
CREATE TABLE pending_erasures (
    tenant_id  BLOB NOT NULL,
    erasure_id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id)
) STRICT, WITHOUT ROWID;

-- A key that may erase accounts may erase persons.
UPDATE api_keys SET scopes = scopes || ' manage:erase' WHERE ' ' || scopes || ' ' LIKE '% manage:accounts %';
