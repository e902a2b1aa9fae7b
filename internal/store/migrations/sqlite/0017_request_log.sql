-- Requests that were refused or failed (store/requestlog): the newest of each tenant. count is how many
-- equal ones a row stands for. faults is JSON.
CREATE TABLE refused_requests (
    tenant_id  BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    refused_id BLOB    NOT NULL,
    count      INTEGER NOT NULL,
    request_id TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    route      TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    code       TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    faults     BLOB    NOT NULL,
    key_id     BLOB,
    user_id    BLOB,
    user_agent TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, at, refused_id)
) STRICT;

-- Requests that have read personal data. subject is null for lists and exports.
CREATE TABLE reads (
    tenant_id  BLOB    NOT NULL,
    at         INTEGER NOT NULL,
    read_id    BLOB    NOT NULL,
    count      INTEGER NOT NULL,
    request_id TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    subject    TEXT,
    route      TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, at, read_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX reads_by_subject ON reads (tenant_id, subject, at, read_id) WHERE subject IS NOT NULL;
CREATE INDEX reads_by_actor ON reads (tenant_id, actor, at, read_id);
