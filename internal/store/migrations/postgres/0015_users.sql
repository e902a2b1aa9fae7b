-- People who use the console. tenant_id is that of the operators' audit log for operators. issuer and
-- subject identify a user at a provider of OpenID Connect.
CREATE TABLE users (
    tenant_id  BYTEA            NOT NULL,
    user_id    BYTEA            NOT NULL PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    role       TEXT COLLATE "C" NOT NULL,
    issuer     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);

CREATE INDEX users_by_tenant ON users (tenant_id, user_id);

CREATE UNIQUE INDEX users_by_subject ON users (issuer, subject, tenant_id) WHERE issuer <> '';

-- The browsers that are signed in.
CREATE TABLE sessions (
    tenant_id   BYTEA            NOT NULL,
    session_id  BYTEA            NOT NULL,
    user_id     BYTEA            NOT NULL,
    secret_hash BYTEA            NOT NULL,
    browser     TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT           NOT NULL,
    used_at     BIGINT           NOT NULL,
    expires_at  BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, user_id, session_id)
);

CREATE UNIQUE INDEX sessions_by_id ON sessions (session_id, user_id, tenant_id);

-- Links that sign a user in once: at most one of each user.
CREATE TABLE login_links (
    tenant_id   BYTEA  NOT NULL,
    user_id     BYTEA  NOT NULL,
    link_id     BYTEA  NOT NULL,
    secret_hash BYTEA  NOT NULL,
    expires_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);

CREATE UNIQUE INDEX login_links_by_id ON login_links (link_id, user_id, tenant_id);
