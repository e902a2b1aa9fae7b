-- The schema of the management API.

-- A key without a tenant belongs to an operator.
ALTER TABLE api_keys ALTER COLUMN tenant_id DROP NOT NULL;

-- merged_into is the account into which this account was merged. survivor_id is the account at
-- the end of the chain of merges, which represents all of them. Both are null for an account that
-- is not merged.
--
-- active_minute is latest_activity_at in minutes since 1970. Accounts are sorted by it: an index
-- of latest_activity_at itself would be written with every entry. The value of an account without
-- activity is lower than all others.
ALTER TABLE accounts ADD COLUMN merged_into BYTEA;
ALTER TABLE accounts ADD COLUMN survivor_id BYTEA;
ALTER TABLE accounts ADD COLUMN active_minute BIGINT NOT NULL DEFAULT -2000000000;

UPDATE accounts SET active_minute = latest_activity_at / 60000000 WHERE latest_activity_at IS NOT NULL;

CREATE INDEX accounts_by_survivor ON accounts (tenant_id, survivor_id, account_id) WHERE survivor_id IS NOT NULL;
CREATE INDEX accounts_by_time ON accounts (tenant_id, created_at, account_id) WHERE survivor_id IS NULL;
CREATE INDEX accounts_by_activity ON accounts (tenant_id, active_minute, account_id) WHERE survivor_id IS NULL;

-- The words by which accounts and prospects are found (store/accounts/terms.go).
CREATE TABLE search_terms (
    tenant_id  BYTEA            NOT NULL,
    term       TEXT COLLATE "C" NOT NULL,
    subject_id BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, term, subject_id)
);

CREATE INDEX prospects_by_time ON prospects (tenant_id, created_at, prospect_id);

-- via marks the copy of a link of an account that was merged into this one.
ALTER TABLE account_prospects ADD COLUMN via BYTEA;

-- acknowledged_account_id is the account in the original receipt of a moved entry, so that a
-- replay returns the same receipt. move_id is the latest move of the entry.
ALTER TABLE entries ADD COLUMN acknowledged_account_id BYTEA;
ALTER TABLE entries ADD COLUMN occurred_at BIGINT;
ALTER TABLE entries ADD COLUMN move_id BYTEA;

CREATE INDEX entries_by_account ON entries (tenant_id, account_id, created_at, entry_id);

CREATE TABLE moves (
    tenant_id       BYTEA  NOT NULL,
    move_id         BYTEA  NOT NULL,
    from_account_id BYTEA  NOT NULL,
    to_account_id   BYTEA  NOT NULL,
    rule            BYTEA,
    moved           BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    undone_at       BIGINT,
    PRIMARY KEY (tenant_id, move_id)
);

CREATE INDEX moves_by_target ON moves (tenant_id, to_account_id, move_id);

-- from_account_id and previous_move_id are the values of the entry before the move.
CREATE TABLE moved_entries (
    tenant_id        BYTEA NOT NULL,
    move_id          BYTEA NOT NULL,
    entry_id         BYTEA NOT NULL,
    from_account_id  BYTEA NOT NULL,
    previous_move_id BYTEA,
    PRIMARY KEY (tenant_id, move_id, entry_id)
);

-- Erased accounts whose entries are not all deleted yet.
CREATE TABLE erasures (
    tenant_id    BYTEA  NOT NULL,
    account_id   BYTEA  NOT NULL,
    requested_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
);

CREATE TABLE brands (
    tenant_id  BYTEA            NOT NULL,
    brand_id   BYTEA            NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL,
    stored_at  BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, brand_id)
);

CREATE INDEX brands_by_time ON brands (tenant_id, created_at, brand_id);

-- An imported page can have any text of any length as its brand_id. Only texts as long as an
-- identifier are indexed.
CREATE INDEX pages_by_brand ON pages (tenant_id, brand_id, created_at, page_id) WHERE length(brand_id) = 32;
CREATE INDEX pages_deleted ON pages (tenant_id, created_at, page_id) WHERE deleted_at IS NOT NULL;

-- Changes of pages that are due at a time.
CREATE TABLE schedules (
    tenant_id  BYTEA            NOT NULL,
    page_id    BYTEA            NOT NULL,
    action     TEXT COLLATE "C" NOT NULL CHECK (action IN ('publish', 'unpublish')),
    due_at     BIGINT           NOT NULL,
    actor      TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, page_id, action)
);

CREATE INDEX schedules_by_time ON schedules (due_at, tenant_id, page_id, action);

-- published_number is the number of the version that is published.
ALTER TABLE audiences ADD COLUMN published_number BIGINT;
CREATE INDEX audiences_by_page ON audiences (tenant_id, page_id, created_at, audience_id);

ALTER TABLE versions ADD COLUMN note TEXT COLLATE "C";

-- Changes by operators. Each row has the hash of the previous one (store/kernel/audit.go). detail
-- is null after it was redacted.
CREATE TABLE audit (
    tenant_id   BYTEA            NOT NULL,
    number      BIGINT           NOT NULL,
    at          BIGINT           NOT NULL,
    actor       TEXT COLLATE "C" NOT NULL,
    action      TEXT COLLATE "C" NOT NULL,
    subject     TEXT COLLATE "C" NOT NULL,
    request_id  TEXT COLLATE "C" NOT NULL,
    detail      BYTEA,
    salt        BYTEA,
    detail_hash BYTEA            NOT NULL,
    hash        BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, number)
);

CREATE INDEX audit_by_subject ON audit (tenant_id, subject, number);

CREATE TABLE audit_heads (
    tenant_id BYTEA  NOT NULL PRIMARY KEY,
    number    BIGINT NOT NULL,
    hash      BYTEA  NOT NULL
);

-- Requests of the management API with an idempotency key, and their results.
CREATE TABLE requests (
    tenant_id   BYTEA  NOT NULL,
    key_match   BYTEA  NOT NULL,
    fingerprint BYTEA  NOT NULL,
    result      BYTEA  NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, key_match)
);

CREATE INDEX requests_by_time ON requests (tenant_id, created_at, key_match);
