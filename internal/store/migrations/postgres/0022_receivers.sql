-- Receivers: addresses to which other systems send their webhooks (store/receivers).
CREATE TABLE receivers (
    tenant_id    BYTEA            NOT NULL,
    receiver_id  BYTEA            NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    provider     TEXT COLLATE "C" NOT NULL,
    verification BYTEA            NOT NULL, -- JSON
    source       TEXT COLLATE "C" NOT NULL,
    mapping      BYTEA            NOT NULL, -- JSON
    enabled      BIGINT           NOT NULL,
    created_at   BIGINT           NOT NULL,
    updated_at   BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id)
);

-- The tenants of receivers: requests name only the receiver.
CREATE TABLE receiver_tenants (
    tenant_id   BYTEA NOT NULL,
    receiver_id BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id)
);

CREATE UNIQUE INDEX receiver_tenants_by_id ON receiver_tenants (receiver_id);

-- Encrypted secrets of receivers. The current one has no expires_at.
CREATE TABLE receiver_secrets (
    tenant_id   BYTEA  NOT NULL,
    receiver_id BYTEA  NOT NULL,
    secret_id   BYTEA  NOT NULL,
    sealed      BYTEA  NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    PRIMARY KEY (tenant_id, receiver_id, secret_id)
);

-- Verified requests that could not be mapped.
CREATE TABLE quarantine (
    tenant_id      BYTEA            NOT NULL,
    receiver_id    BYTEA            NOT NULL,
    quarantined_id BYTEA            NOT NULL,
    received_at    BIGINT           NOT NULL,
    request_id     TEXT COLLATE "C" NOT NULL,
    fault          TEXT COLLATE "C" NOT NULL,
    query          TEXT COLLATE "C" NOT NULL,
    headers        BYTEA            NOT NULL, -- JSON
    body           BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, receiver_id, quarantined_id)
);

CREATE INDEX quarantine_by_receiver ON quarantine (tenant_id, receiver_id, received_at, quarantined_id);
CREATE INDEX quarantine_by_time ON quarantine (tenant_id, received_at, quarantined_id);

-- The number of a tenant's rows in quarantine, and the size of their queries, headers and bodies. They are counted again if
-- a tenant has none, or too many.
CREATE TABLE quarantine_totals (
    tenant_id  BYTEA  NOT NULL PRIMARY KEY,
    deliveries BIGINT NOT NULL,
    bytes      BIGINT NOT NULL
);

-- Deliveries in quarantine that an erasure of a person has deleted.
ALTER TABLE erasure_jobs ADD COLUMN quarantined BIGINT NOT NULL DEFAULT 0;

-- As in 0005.
ALTER TABLE receivers ALTER COLUMN tenant_id SET (n_distinct = 1);
ALTER TABLE receiver_secrets ALTER COLUMN tenant_id SET (n_distinct = 1);
ALTER TABLE quarantine ALTER COLUMN tenant_id SET (n_distinct = 1);
