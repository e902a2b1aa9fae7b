-- How a line about an entry is made of its payload (internal/summary), by source and type. A template
-- with an empty type is for all types of its source that have none.
CREATE TABLE summary_templates (
    tenant_id BYTEA            NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    type      TEXT COLLATE "C" NOT NULL,
    template  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, source, type)
);
