-- Accounts with new entries, whose active_minute is not up to date yet: the stored identifiers of
-- the accounts of one append, one after the other (store/entries/active.go).
CREATE TABLE active_accounts (
    tenant_id BYTEA NOT NULL,
    batch_id  BYTEA NOT NULL,
    accounts  BYTEA NOT NULL,
    PRIMARY KEY (tenant_id, batch_id)
);

ALTER TABLE active_accounts ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
