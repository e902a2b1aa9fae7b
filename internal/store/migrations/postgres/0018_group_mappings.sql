-- Groups of an identity provider (OpenID Connect), each with the role that its members have in a tenant.
-- tenant_id is that of the operators' audit log for groups of operators.
CREATE TABLE group_mappings (
    tenant_id  BYTEA            NOT NULL,
    mapping_id BYTEA            NOT NULL,
    issuer     TEXT COLLATE "C" NOT NULL,
    group_name TEXT COLLATE "C" NOT NULL,
    role       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, mapping_id)
);

CREATE UNIQUE INDEX group_mappings_by_group ON group_mappings (issuer, group_name, tenant_id);
