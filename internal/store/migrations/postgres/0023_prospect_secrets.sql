-- The secret of a tenant, 32 bytes, from which the identifiers of prospects that are matched by their values are derived
-- (store/records). The first such import adds the row.
CREATE TABLE prospect_secrets (
    tenant_id BYTEA NOT NULL PRIMARY KEY,
    secret    BYTEA NOT NULL
);

ALTER TABLE prospect_secrets ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
