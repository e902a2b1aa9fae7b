-- Groups of an identity provider (OpenID Connect), each with the role that its members have in a tenant.
-- tenant_id is that of the operators' audit log for groups of operators.
CREATE TABLE group_mappings (
    tenant_id  BLOB    NOT NULL,
    mapping_id BLOB    NOT NULL,
    issuer     TEXT    NOT NULL,
    group_name TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, mapping_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX group_mappings_by_group ON group_mappings (issuer, group_name, tenant_id);
