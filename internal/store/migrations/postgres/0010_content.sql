-- max_age is in seconds: how long caches may keep a public page. Citus cannot add a column together
-- with its CHECK.
ALTER TABLE pages ADD COLUMN public BIGINT NOT NULL DEFAULT 0;
ALTER TABLE pages ADD COLUMN max_age BIGINT NOT NULL DEFAULT 60;
ALTER TABLE pages ADD CONSTRAINT pages_public_check CHECK (public IN (0, 1));
ALTER TABLE pages ADD CONSTRAINT pages_max_age_check CHECK (max_age >= 0);

-- The origins of the sites that may use the key, separated by spaces.
ALTER TABLE api_keys ADD COLUMN origins TEXT COLLATE "C";

CREATE INDEX audiences_published ON audiences (tenant_id, page_id, created_at, audience_id)
    WHERE published_number IS NOT NULL AND archived = 0;

-- Tokens that show a version before it is published.
CREATE TABLE previews (
    tenant_id   BYTEA  NOT NULL,
    page_id     BYTEA  NOT NULL,
    preview_id  BYTEA  NOT NULL,
    audience_id BYTEA  NOT NULL,
    number      BIGINT NOT NULL,
    secret_hash BYTEA  NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, page_id, preview_id)
);

ALTER TABLE previews ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
