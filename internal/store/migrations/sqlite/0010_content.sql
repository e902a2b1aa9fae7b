-- max_age is in seconds: how long caches may keep a public page.
ALTER TABLE pages ADD COLUMN public INTEGER NOT NULL DEFAULT 0 CHECK (public IN (0, 1));
ALTER TABLE pages ADD COLUMN max_age INTEGER NOT NULL DEFAULT 60 CHECK (max_age >= 0);

-- The origins of the sites that may use the key, separated by spaces.
ALTER TABLE api_keys ADD COLUMN origins TEXT;

CREATE INDEX audiences_published ON audiences (tenant_id, page_id, created_at, audience_id)
    WHERE published_number IS NOT NULL AND archived = 0;

-- Tokens that show a version before it is published.
CREATE TABLE previews (
    tenant_id   BLOB    NOT NULL,
    page_id     BLOB    NOT NULL,
    preview_id  BLOB    NOT NULL,
    audience_id BLOB    NOT NULL,
    number      INTEGER NOT NULL,
    secret_hash BLOB    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, page_id, preview_id)
) STRICT, WITHOUT ROWID;
