-- The schema of the management API.

-- A key without a tenant belongs to an operator. SQLite cannot drop NOT NULL from a column, so
-- the table is rebuilt.
CREATE TABLE keys_with_operators (
    key_id           BLOB    NOT NULL PRIMARY KEY,
    tenant_id        BLOB    REFERENCES tenants (tenant_id),
    name             TEXT    NOT NULL,
    scopes           TEXT    NOT NULL,
    secret_hash      BLOB    NOT NULL,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER,
    revoked_at       INTEGER,
    previous_hash    BLOB,
    previous_ends_at INTEGER,
    last_used_at     INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO keys_with_operators
    SELECT key_id, tenant_id, name, scopes, secret_hash, created_at, expires_at, revoked_at, previous_hash, previous_ends_at, last_used_at
    FROM api_keys;

DROP TABLE api_keys;

ALTER TABLE keys_with_operators RENAME TO api_keys;

CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);

-- merged_into is the account into which this account was merged. survivor_id is the account at
-- the end of the chain of merges, which represents all of them. Both are null for an account that
-- is not merged.
--
-- active_minute is latest_activity_at in minutes since 1970. Accounts are sorted by it: an index
-- of latest_activity_at itself would be written with every entry. The value of an account without
-- activity is lower than all others.
ALTER TABLE accounts ADD COLUMN merged_into BLOB;
ALTER TABLE accounts ADD COLUMN survivor_id BLOB;
ALTER TABLE accounts ADD COLUMN active_minute INTEGER NOT NULL DEFAULT -2000000000;

UPDATE accounts SET active_minute = latest_activity_at / 60000000 WHERE latest_activity_at IS NOT NULL;

CREATE INDEX accounts_by_survivor ON accounts (tenant_id, survivor_id, account_id) WHERE survivor_id IS NOT NULL;
CREATE INDEX accounts_by_time ON accounts (tenant_id, created_at, account_id) WHERE survivor_id IS NULL;
CREATE INDEX accounts_by_activity ON accounts (tenant_id, active_minute, account_id) WHERE survivor_id IS NULL;

-- The words by which accounts and prospects are found (store/accounts/terms.go).
CREATE TABLE search_terms (
    tenant_id  BLOB NOT NULL,
    term       TEXT NOT NULL,
    subject_id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, term, subject_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX prospects_by_time ON prospects (tenant_id, created_at, prospect_id);

-- via marks the copy of a link of an account that was merged into this one.
ALTER TABLE account_prospects ADD COLUMN via BLOB;

-- acknowledged_account_id is the account in the original receipt of a moved entry, so that a
-- replay returns the same receipt. move_id is the latest move of the entry.
ALTER TABLE entries ADD COLUMN acknowledged_account_id BLOB;
ALTER TABLE entries ADD COLUMN occurred_at INTEGER;
ALTER TABLE entries ADD COLUMN move_id BLOB;

CREATE INDEX entries_by_account ON entries (tenant_id, account_id, created_at, entry_id);

CREATE TABLE moves (
    tenant_id       BLOB    NOT NULL,
    move_id         BLOB    NOT NULL,
    from_account_id BLOB    NOT NULL,
    to_account_id   BLOB    NOT NULL,
    rule            BLOB,
    moved           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    undone_at       INTEGER,
    PRIMARY KEY (tenant_id, move_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX moves_by_target ON moves (tenant_id, to_account_id, move_id);

-- from_account_id and previous_move_id are the values of the entry before the move.
CREATE TABLE moved_entries (
    tenant_id        BLOB NOT NULL,
    move_id          BLOB NOT NULL,
    entry_id         BLOB NOT NULL,
    from_account_id  BLOB NOT NULL,
    previous_move_id BLOB,
    PRIMARY KEY (tenant_id, move_id, entry_id)
) STRICT, WITHOUT ROWID;

-- Erased accounts whose entries are not all deleted yet.
CREATE TABLE erasures (
    tenant_id    BLOB    NOT NULL,
    account_id   BLOB    NOT NULL,
    requested_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE brands (
    tenant_id  BLOB    NOT NULL,
    brand_id   BLOB    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    stored_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, brand_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX brands_by_time ON brands (tenant_id, created_at, brand_id);

-- An imported page can have any text of any length as its brand_id. Only texts as long as an
-- identifier are indexed.
CREATE INDEX pages_by_brand ON pages (tenant_id, brand_id, created_at, page_id) WHERE length(brand_id) = 32;
CREATE INDEX pages_deleted ON pages (tenant_id, created_at, page_id) WHERE deleted_at IS NOT NULL;

-- Changes of pages that are due at a time.
CREATE TABLE schedules (
    tenant_id  BLOB    NOT NULL,
    page_id    BLOB    NOT NULL,
    action     TEXT    NOT NULL CHECK (action IN ('publish', 'unpublish')),
    due_at     INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, page_id, action)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_by_time ON schedules (due_at, tenant_id, page_id, action);

-- published_number is the number of the version that is published.
ALTER TABLE audiences ADD COLUMN published_number INTEGER;
CREATE INDEX audiences_by_page ON audiences (tenant_id, page_id, created_at, audience_id);

ALTER TABLE versions ADD COLUMN note TEXT;

-- Changes by operators. Each row has the hash of the previous one (store/kernel/audit.go). detail
-- is null after it was redacted.
CREATE TABLE audit (
    tenant_id   BLOB    NOT NULL,
    number      INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    request_id  TEXT    NOT NULL,
    detail      BLOB,
    salt        BLOB,
    detail_hash BLOB    NOT NULL,
    hash        BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, number)
) STRICT;

CREATE INDEX audit_by_subject ON audit (tenant_id, subject, number);

CREATE TABLE audit_heads (
    tenant_id BLOB    NOT NULL PRIMARY KEY,
    number    INTEGER NOT NULL,
    hash      BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Requests of the management API with an idempotency key, and their results.
CREATE TABLE requests (
    tenant_id   BLOB    NOT NULL,
    key_match   BLOB    NOT NULL,
    fingerprint BLOB    NOT NULL,
    result      BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, key_match)
) STRICT;

CREATE INDEX requests_by_time ON requests (tenant_id, created_at, key_match);
