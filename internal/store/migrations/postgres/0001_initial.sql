-- Identifiers are stored without their prefix (store/kernel/id.go). Instants are microseconds
-- since 1970. Columns named *_hash have the first 16 bytes of a SHA-256, because the value itself
-- can exceed the maximum size of an index entry. key_match is an idempotency key, shortened if it
-- is long (store/kernel/idempotency.go).
--
-- In the tables of tenants, every primary and unique key begins with the tenant, and every
-- reference includes it: the tables can be distributed by tenant. Text is compared by its bytes,
-- whatever the collation of the database.

CREATE TABLE settings (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value BYTEA            NOT NULL
);

CREATE TABLE tenants (
    tenant_id  BYTEA            NOT NULL PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL
);

CREATE TABLE api_keys (
    key_id      BYTEA            NOT NULL PRIMARY KEY,
    tenant_id   BYTEA            NOT NULL REFERENCES tenants (tenant_id),
    name        TEXT COLLATE "C" NOT NULL,
    scopes      TEXT COLLATE "C" NOT NULL,
    secret_hash BYTEA            NOT NULL,
    created_at  BIGINT           NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
);

CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);

-- stored_at is when the row was stored in this database, whatever its created_at is: an export
-- leaves out rows that were stored after it began.
CREATE TABLE accounts (
    tenant_id          BYTEA            NOT NULL,
    account_id         BYTEA            NOT NULL,
    domain             TEXT COLLATE "C" NOT NULL,
    domain_hash        BYTEA            NOT NULL,
    name               TEXT COLLATE "C",
    name_hash          BYTEA,
    created_at         BIGINT           NOT NULL,
    updated_at         BIGINT           NOT NULL,
    latest_activity_at BIGINT,
    stored_at          BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) WITH (fillfactor = 80); -- every entry updates its account: leave room for HOT updates

CREATE UNIQUE INDEX accounts_by_domain ON accounts (tenant_id, domain_hash);
CREATE INDEX accounts_by_name ON accounts (tenant_id, name_hash, account_id) WHERE name_hash IS NOT NULL;

CREATE TABLE prospects (
    tenant_id            BYTEA            NOT NULL,
    prospect_id          BYTEA            NOT NULL,
    name                 TEXT COLLATE "C",
    email                TEXT COLLATE "C",
    domain               TEXT COLLATE "C",
    slug                 TEXT COLLATE "C",
    phone_number         TEXT COLLATE "C",
    linkedin_profile_url TEXT COLLATE "C",
    created_at           BIGINT           NOT NULL,
    updated_at           BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, prospect_id)
);

-- The key is in the order in which an account lists its prospects. The time at which a prospect
-- was created never changes.
CREATE TABLE account_prospects (
    tenant_id           BYTEA            NOT NULL,
    account_id          BYTEA            NOT NULL,
    prospect_created_at BIGINT           NOT NULL,
    prospect_id         BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, account_id, prospect_created_at, prospect_id),
    FOREIGN KEY (tenant_id, account_id) REFERENCES accounts (tenant_id, account_id),
    FOREIGN KEY (tenant_id, prospect_id) REFERENCES prospects (tenant_id, prospect_id)
);

CREATE INDEX account_prospects_by_prospect ON account_prospects (tenant_id, prospect_id, account_id);

-- No foreign key to accounts: the transaction that stores the entry finds or creates the account,
-- and the check would cost one more lookup per entry.
CREATE TABLE entries (
    tenant_id          BYTEA            NOT NULL,
    entry_id           BYTEA            NOT NULL,
    account_id         BYTEA            NOT NULL,
    created_at         BIGINT           NOT NULL,
    source             TEXT COLLATE "C" NOT NULL,
    type               TEXT COLLATE "C" NOT NULL,
    claimed_account_id BYTEA,
    claimed_domain     TEXT COLLATE "C",
    claimed_name       TEXT COLLATE "C",
    idempotency_key    TEXT COLLATE "C",
    key_match          BYTEA,
    fingerprint        BYTEA,
    payload            BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, entry_id)
);

CREATE UNIQUE INDEX entries_by_key ON entries (tenant_id, key_match) WHERE key_match IS NOT NULL;

CREATE TABLE pages (
    tenant_id        BYTEA            NOT NULL,
    page_id          BYTEA            NOT NULL,
    brand_id         TEXT COLLATE "C" NOT NULL,
    name             TEXT COLLATE "C" NOT NULL,
    page_context     TEXT COLLATE "C" NOT NULL,
    title            TEXT COLLATE "C" NOT NULL,
    status           TEXT COLLATE "C" NOT NULL CHECK (status IN ('archived', 'draft', 'published')),
    header_action_id TEXT COLLATE "C",
    audiences_count  BIGINT           NOT NULL,
    created_at       BIGINT           NOT NULL,
    updated_at       BIGINT           NOT NULL,
    deleted_at       BIGINT,
    stored_at        BIGINT           NOT NULL,
    actions          BYTEA            NOT NULL,
    scripts          BYTEA            NOT NULL,
    footer_links     BYTEA            NOT NULL,
    metadata         BYTEA,
    PRIMARY KEY (tenant_id, page_id)
);

CREATE INDEX pages_by_time ON pages (tenant_id, created_at, page_id) WHERE deleted_at IS NULL;
CREATE INDEX pages_by_status ON pages (tenant_id, status, created_at, page_id) WHERE deleted_at IS NULL;

-- last_number is the highest number that a version has ever had, so that no number is used twice.
-- versions_count is the number of versions that are stored.
CREATE TABLE audiences (
    tenant_id      BYTEA            NOT NULL,
    audience_id    BYTEA            NOT NULL,
    page_id        BYTEA            NOT NULL,
    name           TEXT COLLATE "C" NOT NULL,
    archived       BIGINT           NOT NULL CHECK (archived IN (0, 1)),
    versions_count BIGINT           NOT NULL,
    last_number    BIGINT           NOT NULL,
    created_at     BIGINT           NOT NULL,
    updated_at     BIGINT           NOT NULL,
    stored_at      BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, audience_id),
    FOREIGN KEY (tenant_id, page_id) REFERENCES pages (tenant_id, page_id)
);

CREATE TABLE versions (
    tenant_id   BYTEA            NOT NULL,
    audience_id BYTEA            NOT NULL,
    number      BIGINT           NOT NULL CHECK (number >= 1),
    version_id  BYTEA            NOT NULL,
    archived    BIGINT           NOT NULL CHECK (archived IN (0, 1)),
    created_at  BIGINT           NOT NULL,
    content     BYTEA,
    PRIMARY KEY (tenant_id, audience_id, number),
    FOREIGN KEY (tenant_id, audience_id) REFERENCES audiences (tenant_id, audience_id)
);

CREATE UNIQUE INDEX versions_by_id ON versions (tenant_id, version_id);
