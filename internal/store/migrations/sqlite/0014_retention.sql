-- The rules by which old entries of a tenant are deleted, and where the job is that applies them
-- (store/erasures/retention.go). A scan examines the entries after the identifier scan_after for expiry
-- at scan_until: near the age of scan_days, or all if it is 0. The columns are null while none runs.
-- Entries are examined up to applied_until, and all entries were last examined at swept_at. deleted
-- counts the entries that were deleted since deleted_since and are not in the audit log yet. Every
-- change increments version.
CREATE TABLE retention (
    tenant_id     BLOB    NOT NULL PRIMARY KEY,
    rules         BLOB    NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    scan_days     INTEGER,
    scan_until    INTEGER,
    scan_after    BLOB,
    applied_until INTEGER NOT NULL,
    swept_at      INTEGER NOT NULL,
    deleted       INTEGER NOT NULL,
    deleted_since INTEGER
) STRICT, WITHOUT ROWID;
