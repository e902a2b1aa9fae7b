-- Receivers: addresses to which other systems send their webhooks (store/receivers).
CREATE TABLE receivers (
    tenant_id    BLOB    NOT NULL,
    receiver_id  BLOB    NOT NULL,
    name         TEXT    NOT NULL,
    provider     TEXT    NOT NULL,
    verification BLOB    NOT NULL, -- JSON
    source       TEXT    NOT NULL,
    mapping      BLOB    NOT NULL, -- JSON
    enabled      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id)
) STRICT, WITHOUT ROWID;

-- The tenants of receivers: requests name only the receiver.
CREATE TABLE receiver_tenants (
    tenant_id   BLOB NOT NULL,
    receiver_id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX receiver_tenants_by_id ON receiver_tenants (receiver_id);

-- Encrypted secrets of receivers. The current one has no expires_at.
CREATE TABLE receiver_secrets (
    tenant_id   BLOB    NOT NULL,
    receiver_id BLOB    NOT NULL,
    secret_id   BLOB    NOT NULL,
    sealed      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (tenant_id, receiver_id, secret_id)
) STRICT, WITHOUT ROWID;

-- Verified requests that could not be mapped.
CREATE TABLE quarantine (
    tenant_id      BLOB    NOT NULL,
    receiver_id    BLOB    NOT NULL,
    quarantined_id BLOB    NOT NULL,
    received_at    INTEGER NOT NULL,
    request_id     TEXT    NOT NULL,
    fault          TEXT    NOT NULL,
    query          TEXT    NOT NULL,
    headers        BLOB    NOT NULL, -- JSON
    body           BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id, quarantined_id)
) STRICT;

CREATE INDEX quarantine_by_receiver ON quarantine (tenant_id, receiver_id, received_at, quarantined_id);
CREATE INDEX quarantine_by_time ON quarantine (tenant_id, received_at, quarantined_id);

-- The number of a tenant's rows in quarantine, and the size of their queries, headers and bodies. They are counted again if
-- a tenant has none, or too many.
CREATE TABLE quarantine_totals (
    tenant_id  BLOB    NOT NULL PRIMARY KEY,
    deliveries INTEGER NOT NULL,
    bytes      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Deliveries in quarantine that an erasure of a person has deleted.
ALTER TABLE erasure_jobs ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0;
