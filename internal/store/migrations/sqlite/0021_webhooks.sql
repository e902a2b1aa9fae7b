-- Webhooks: where the events of a tenant are sent (store/webhooks). position is that up to which all events
-- are recorded. idle is 1 for a webhook that nothing is due for, which the next event makes 0, and 2 for a
-- disabled one. owner has the lease until leased_until, and every write of the owner checks epoch.
-- results is the number of the last results that it has stored. Copies leave out the columns after position, so a copied
-- webhook is disabled.
CREATE TABLE webhooks (
    tenant_id       BLOB    NOT NULL,
    webhook_id      BLOB    NOT NULL,
    description     TEXT    NOT NULL,
    url             TEXT    NOT NULL,
    event_types     BLOB    NOT NULL, -- JSON
    sources         BLOB    NOT NULL, -- JSON
    entry_types     BLOB    NOT NULL, -- JSON
    account_id      BLOB,
    filter          TEXT    NOT NULL,
    format          TEXT    NOT NULL,
    ordered         INTEGER NOT NULL,
    rate_limit      INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    disabled_reason TEXT    DEFAULT 'copy',
    disabled_at     INTEGER,
    failing_since   INTEGER,
    behind_since    INTEGER,
    lost            INTEGER NOT NULL DEFAULT 0,
    filter_faults   INTEGER NOT NULL DEFAULT 0,
    idle            INTEGER NOT NULL DEFAULT 2,
    owner           BLOB,
    leased_until    INTEGER NOT NULL DEFAULT 0,
    epoch           INTEGER NOT NULL DEFAULT 0,
    results         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, webhook_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhooks_by_idle ON webhooks (tenant_id, idle, webhook_id);

-- When a node should look at a webhook: for new events, for retries, or because a lease has expired. Idle webhooks without
-- retries and disabled ones have no row.
CREATE TABLE webhook_due (
    tenant_id  BLOB    NOT NULL,
    webhook_id BLOB    NOT NULL,
    due_at     INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_due_by_time ON webhook_due (due_at);

-- Encrypted values of webhooks. The current ones have no expires_at.
CREATE TABLE webhook_secrets (
    tenant_id  BLOB    NOT NULL,
    webhook_id BLOB    NOT NULL,
    secret_id  BLOB    NOT NULL,
    kind       TEXT    NOT NULL,
    sealed     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (tenant_id, webhook_id, secret_id)
) STRICT, WITHOUT ROWID;

-- Deliveries of events, by their position in the feed. There is none before the first result. state is 0 pending,
-- 1 waiting, 2 succeeded, 3 failed, 4 canceled. latency is in microseconds.
CREATE TABLE deliveries (
    tenant_id   BLOB    NOT NULL,
    webhook_id  BLOB    NOT NULL,
    position    INTEGER NOT NULL,
    event_id    BLOB    NOT NULL,
    type        TEXT    NOT NULL,
    subject     TEXT,
    entry_id    BLOB,
    state       INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    earlier     INTEGER NOT NULL,
    next_at     INTEGER,
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    status      INTEGER NOT NULL,
    error       TEXT    NOT NULL,
    latency     INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_event ON deliveries (tenant_id, event_id, webhook_id);
CREATE INDEX deliveries_by_state ON deliveries (tenant_id, webhook_id, state, position);
CREATE INDEX deliveries_due ON deliveries (tenant_id, webhook_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_finished ON deliveries (tenant_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX deliveries_unfinished ON deliveries (tenant_id, webhook_id, subject, position) WHERE finished_at IS NULL;

-- Requests of deliveries. duration is in microseconds, and response the beginning of the body.
CREATE TABLE delivery_attempts (
    tenant_id  BLOB    NOT NULL,
    webhook_id BLOB    NOT NULL,
    position   INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    duration   INTEGER NOT NULL,
    status     INTEGER NOT NULL,
    error      TEXT    NOT NULL,
    response   BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, position, number)
) STRICT;

-- Attempts of webhooks, by the hour.
CREATE TABLE webhook_hours (
    tenant_id   BLOB    NOT NULL,
    webhook_id  BLOB    NOT NULL,
    starts_at   INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    succeeded   INTEGER NOT NULL,
    latency     INTEGER NOT NULL,
    max_latency INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, starts_at)
) STRICT, WITHOUT ROWID;

-- Replays of ranges of positions. position is that up to which deliveries are scheduled.
CREATE TABLE webhook_replays (
    tenant_id      BLOB    NOT NULL,
    webhook_id     BLOB    NOT NULL,
    replay_id      BLOB    NOT NULL,
    first_position INTEGER NOT NULL,
    last_position  INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    rate           INTEGER NOT NULL,
    failed_only    INTEGER NOT NULL,
    scheduled      INTEGER NOT NULL,
    actor          TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    finished_at    INTEGER,
    PRIMARY KEY (tenant_id, webhook_id, replay_id)
) STRICT, WITHOUT ROWID;
