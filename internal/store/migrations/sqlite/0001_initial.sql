-- Identifiers are stored without their prefix (store/kernel/id.go). Instants are microseconds
-- since 1970. Columns named *_hash have the first 16 bytes of a SHA-256, as on PostgreSQL, where
-- the value itself can exceed the maximum size of an index entry. key_match is an idempotency
-- key, shortened if it is long (store/kernel/idempotency.go).
--
-- Tables with small rows are clustered by their primary key (WITHOUT ROWID). Tables that hold
-- JSON are not: an index B-tree moves a row that is larger than a quarter of a page to overflow
-- pages, a table B-tree does not.

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    tenant_id  BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    key_id      BLOB    NOT NULL PRIMARY KEY,
    tenant_id   BLOB    NOT NULL REFERENCES tenants (tenant_id),
    name        TEXT    NOT NULL,
    scopes      TEXT    NOT NULL,
    secret_hash BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);

-- stored_at is when the row was stored in this database, whatever its created_at is: an export
-- leaves out rows that were stored after it began.
CREATE TABLE accounts (
    tenant_id          BLOB    NOT NULL,
    account_id         BLOB    NOT NULL,
    domain             TEXT    NOT NULL,
    domain_hash        BLOB    NOT NULL,
    name               TEXT,
    name_hash          BLOB,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    latest_activity_at INTEGER,
    stored_at          INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX accounts_by_domain ON accounts (tenant_id, domain_hash);
CREATE INDEX accounts_by_name ON accounts (tenant_id, name_hash, account_id) WHERE name_hash IS NOT NULL;

CREATE TABLE prospects (
    tenant_id            BLOB    NOT NULL,
    prospect_id          BLOB    NOT NULL,
    name                 TEXT,
    email                TEXT,
    domain               TEXT,
    slug                 TEXT,
    phone_number         TEXT,
    linkedin_profile_url TEXT,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, prospect_id)
) STRICT, WITHOUT ROWID;

-- Clustered in the order in which an account lists its prospects. The time at which a prospect
-- was created never changes.
CREATE TABLE account_prospects (
    tenant_id           BLOB    NOT NULL,
    account_id          BLOB    NOT NULL,
    prospect_created_at INTEGER NOT NULL,
    prospect_id         BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, account_id, prospect_created_at, prospect_id),
    FOREIGN KEY (tenant_id, account_id) REFERENCES accounts (tenant_id, account_id),
    FOREIGN KEY (tenant_id, prospect_id) REFERENCES prospects (tenant_id, prospect_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX account_prospects_by_prospect ON account_prospects (tenant_id, prospect_id, account_id);

-- No foreign key to accounts: the transaction that stores the entry finds or creates the account,
-- and the check would cost one more lookup per entry.
CREATE TABLE entries (
    tenant_id          BLOB    NOT NULL,
    entry_id           BLOB    NOT NULL,
    account_id         BLOB    NOT NULL,
    created_at         INTEGER NOT NULL,
    source             TEXT    NOT NULL,
    type               TEXT    NOT NULL,
    claimed_account_id BLOB,
    claimed_domain     TEXT,
    claimed_name       TEXT,
    idempotency_key    TEXT,
    key_match          BLOB,
    fingerprint        BLOB,
    payload            BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, entry_id)
) STRICT;

CREATE UNIQUE INDEX entries_by_key ON entries (tenant_id, key_match) WHERE key_match IS NOT NULL;

CREATE TABLE pages (
    tenant_id        BLOB    NOT NULL,
    page_id          BLOB    NOT NULL,
    brand_id         TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    page_context     TEXT    NOT NULL,
    title            TEXT    NOT NULL,
    status           TEXT    NOT NULL CHECK (status IN ('archived', 'draft', 'published')),
    header_action_id TEXT,
    audiences_count  INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    deleted_at       INTEGER,
    stored_at        INTEGER NOT NULL,
    actions          BLOB    NOT NULL,
    scripts          BLOB    NOT NULL,
    footer_links     BLOB    NOT NULL,
    metadata         BLOB,
    PRIMARY KEY (tenant_id, page_id)
) STRICT;

CREATE INDEX pages_by_time ON pages (tenant_id, created_at, page_id) WHERE deleted_at IS NULL;
CREATE INDEX pages_by_status ON pages (tenant_id, status, created_at, page_id) WHERE deleted_at IS NULL;

-- last_number is the highest number that a version has ever had, so that no number is used twice.
-- versions_count is the number of versions that are stored.
CREATE TABLE audiences (
    tenant_id      BLOB    NOT NULL,
    audience_id    BLOB    NOT NULL,
    page_id        BLOB    NOT NULL,
    name           TEXT    NOT NULL,
    archived       INTEGER NOT NULL CHECK (archived IN (0, 1)),
    versions_count INTEGER NOT NULL,
    last_number    INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    stored_at      INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, audience_id),
    FOREIGN KEY (tenant_id, page_id) REFERENCES pages (tenant_id, page_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
    tenant_id   BLOB    NOT NULL,
    audience_id BLOB    NOT NULL,
    number      INTEGER NOT NULL CHECK (number >= 1),
    version_id  BLOB    NOT NULL,
    archived    INTEGER NOT NULL CHECK (archived IN (0, 1)),
    created_at  INTEGER NOT NULL,
    content     BLOB,
    PRIMARY KEY (tenant_id, audience_id, number),
    FOREIGN KEY (tenant_id, audience_id) REFERENCES audiences (tenant_id, audience_id)
) STRICT;

CREATE UNIQUE INDEX versions_by_id ON versions (tenant_id, version_id);
