-- Accounts with new entries, whose active_minute is not up to date yet: the stored identifiers of
-- the accounts of one append, one after the other (store/entries/active.go).
CREATE TABLE active_accounts (
    tenant_id BLOB NOT NULL,
    batch_id  BLOB NOT NULL,
    accounts  BLOB NOT NULL,
    PRIMARY KEY (tenant_id, batch_id)
) STRICT, WITHOUT ROWID;
