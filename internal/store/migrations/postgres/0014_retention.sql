-- The rules by which old entries of a tenant are deleted, and where the job is that applies them
-- (store/erasures/retention.go). A scan examines the entries after the identifier scan_after for expiry
-- at scan_until: near the age of scan_days, or all if it is 0. The columns are null while none runs.
-- Entries are examined up to applied_until, and all entries were last examined at swept_at. deleted
-- counts the entries that were deleted since deleted_since and are not in the audit log yet. Every
-- change increments version.
CREATE TABLE retention (
    tenant_id     BYTEA  NOT NULL PRIMARY KEY,
    rules         BYTEA  NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    scan_days     BIGINT,
    scan_until    BIGINT,
    scan_after    BYTEA,
    applied_until BIGINT NOT NULL,
    swept_at      BIGINT NOT NULL,
    deleted       BIGINT NOT NULL,
    deleted_since BIGINT
);
