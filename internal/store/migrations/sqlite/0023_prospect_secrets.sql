-- The secret of a tenant, 32 bytes, from which the identifiers of prospects that are matched by their values are derived
-- (store/records). The first such import adds the row.
CREATE TABLE prospect_secrets (
    tenant_id BLOB NOT NULL PRIMARY KEY,
    secret    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
