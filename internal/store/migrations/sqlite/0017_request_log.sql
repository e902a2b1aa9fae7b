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
