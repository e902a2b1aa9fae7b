-- What remains of erased entries, so that a retry of their requests is a replay
-- (store/tombstones). account_id is the account in the receipt. key_hmac and request_hmac are null
-- if the entry had no idempotency key. A tombstone without expires_at is permanent.
CREATE TABLE tombstones (
    tenant_id     BYTEA            NOT NULL,
    entry_id      BYTEA            NOT NULL,
    account_id    BYTEA            NOT NULL,
    created_at    BIGINT           NOT NULL,
    source        TEXT COLLATE "C" NOT NULL,
    type          TEXT COLLATE "C" NOT NULL,
    secret_number BIGINT,
    key_hmac      BYTEA,
    request_hmac  BYTEA,
    expires_at    BIGINT,
    PRIMARY KEY (tenant_id, entry_id)
);

CREATE UNIQUE INDEX tombstones_by_key ON tombstones (tenant_id, key_hmac) WHERE key_hmac IS NOT NULL;
CREATE INDEX tombstones_by_expiry ON tombstones (tenant_id, expires_at, entry_id) WHERE expires_at IS NOT NULL;

-- The secrets of the HMACs, 32 bytes each, one after the other. secret_number counts them from 0. A
-- tenant has one, and more only after imports from several databases.
CREATE TABLE tombstone_secrets (
    tenant_id BYTEA NOT NULL PRIMARY KEY,
    secrets   BYTEA NOT NULL
);

ALTER TABLE tombstones ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
ALTER TABLE tombstone_secrets ALTER COLUMN tenant_id SET (n_distinct = 1);
