-- People who use the console. tenant_id is that of the operators' audit log for operators. issuer and
-- subject identify a user at a provider of OpenID Connect.
CREATE TABLE users (
    tenant_id  BLOB    NOT NULL,
    user_id    BLOB    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL,
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX users_by_tenant ON users (tenant_id, user_id);

CREATE UNIQUE INDEX users_by_subject ON users (issuer, subject, tenant_id) WHERE issuer <> '';

-- The browsers that are signed in.
CREATE TABLE sessions (
    tenant_id   BLOB    NOT NULL,
    session_id  BLOB    NOT NULL,
    user_id     BLOB    NOT NULL,
    secret_hash BLOB    NOT NULL,
    browser     TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    used_at     INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX sessions_by_id ON sessions (session_id, user_id, tenant_id);

-- Links that sign a user in once: at most one of each user.
CREATE TABLE login_links (
    tenant_id   BLOB    NOT NULL,
    user_id     BLOB    NOT NULL,
    link_id     BLOB    NOT NULL,
    secret_hash BLOB    NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX login_links_by_id ON login_links (link_id, user_id, tenant_id);
