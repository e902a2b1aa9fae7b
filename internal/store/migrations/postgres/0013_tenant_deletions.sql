-- When the deletion of the tenant began (store/erasures/tenants.go). Requests and jobs treat such a
-- tenant as one that does not exist.
ALTER TABLE tenants ADD COLUMN deleting_at BIGINT;

CREATE INDEX tenants_deleting ON tenants (tenant_id) WHERE deleting_at IS NOT NULL;

-- The progress of deletions: how many rows, and how many of them are entries. actor requested it.
CREATE TABLE tenant_deletions (
    tenant_id       BYTEA            NOT NULL PRIMARY KEY,
    actor           TEXT COLLATE "C" NOT NULL,
    deleted_rows    BIGINT           NOT NULL,
    deleted_entries BIGINT           NOT NULL
);
