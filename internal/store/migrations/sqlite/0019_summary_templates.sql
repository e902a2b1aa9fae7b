-- How a line about an entry is made of its payload (internal/summary), by source and type. A template
-- with an empty type is for all types of its source that have none.
CREATE TABLE summary_templates (
    tenant_id BLOB NOT NULL,
    source    TEXT NOT NULL,
    type      TEXT NOT NULL,
    template  TEXT NOT NULL,
    PRIMARY KEY (tenant_id, source, type)
) STRICT, WITHOUT ROWID;
