-- Webhooks: where the events of a tenant are sent (store/webhooks). position is that up to which all events
-- are recorded. idle is 1 for a webhook that nothing is due for, which the next event makes 0, and 2 for a
-- disabled one. owner has the lease until leased_until, and every write of the owner checks epoch.
-- results is the number of the last results that it has stored. Copies leave out the columns after position, so a copied
-- webhook is disabled.
CREATE TABLE webhooks (
    tenant_id       BYTEA            NOT NULL,
    webhook_id      BYTEA            NOT NULL,
    description     TEXT COLLATE "C" NOT NULL,
    url             TEXT COLLATE "C" NOT NULL,
    event_types     BYTEA            NOT NULL, -- JSON
    sources         BYTEA            NOT NULL, -- JSON
    entry_types     BYTEA            NOT NULL, -- JSON
    account_id      BYTEA,
    filter          TEXT COLLATE "C" NOT NULL,
    format          TEXT COLLATE "C" NOT NULL,
    ordered         BIGINT           NOT NULL,
    rate_limit      BIGINT           NOT NULL,
    created_at      BIGINT           NOT NULL,
    updated_at      BIGINT           NOT NULL,
    position        BIGINT           NOT NULL,
    disabled_reason TEXT COLLATE "C" DEFAULT 'copy',
    disabled_at     BIGINT,
    failing_since   BIGINT,
    behind_since    BIGINT,
    lost            BIGINT           NOT NULL DEFAULT 0,
    filter_faults   BIGINT           NOT NULL DEFAULT 0,
    idle            BIGINT           NOT NULL DEFAULT 2,
    owner           BYTEA,
    leased_until    BIGINT           NOT NULL DEFAULT 0,
    epoch           BIGINT           NOT NULL DEFAULT 0,
    results         BIGINT           NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, webhook_id)
);

CREATE INDEX webhooks_by_idle ON webhooks (tenant_id, idle, webhook_id);

-- When a node should look at a webhook: for new events, for retries, or because a lease has expired. Idle webhooks without
-- retries and disabled ones have no row.
CREATE TABLE webhook_due (
    tenant_id  BYTEA  NOT NULL,
    webhook_id BYTEA  NOT NULL,
    due_at     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id)
);

CREATE INDEX webhook_due_by_time ON webhook_due (due_at);

-- Encrypted values of webhooks. The current ones have no expires_at.
CREATE TABLE webhook_secrets (
    tenant_id  BYTEA            NOT NULL,
    webhook_id BYTEA            NOT NULL,
    secret_id  BYTEA            NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    sealed     BYTEA            NOT NULL,
    created_at BIGINT           NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (tenant_id, webhook_id, secret_id)
);

-- Deliveries of events, by their position in the feed. There is none before the first result. state is 0 pending,
-- 1 waiting, 2 succeeded, 3 failed, 4 canceled. latency is in microseconds.
CREATE TABLE deliveries (
    tenant_id   BYTEA            NOT NULL,
    webhook_id  BYTEA            NOT NULL,
    position    BIGINT           NOT NULL,
    event_id    BYTEA            NOT NULL,
    type        TEXT COLLATE "C" NOT NULL,
    subject     TEXT COLLATE "C",
    entry_id    BYTEA,
    state       BIGINT           NOT NULL,
    attempts    BIGINT           NOT NULL,
    earlier     BIGINT           NOT NULL,
    next_at     BIGINT,
    created_at  BIGINT           NOT NULL,
    finished_at BIGINT,
    status      BIGINT           NOT NULL,
    error       TEXT COLLATE "C" NOT NULL,
    latency     BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, position)
);

CREATE INDEX deliveries_by_event ON deliveries (tenant_id, event_id, webhook_id);
CREATE INDEX deliveries_by_state ON deliveries (tenant_id, webhook_id, state, position);
CREATE INDEX deliveries_due ON deliveries (tenant_id, webhook_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_finished ON deliveries (tenant_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX deliveries_unfinished ON deliveries (tenant_id, webhook_id, subject, position) WHERE finished_at IS NULL;

-- Requests of deliveries. duration is in microseconds, and response the beginning of the body.
CREATE TABLE delivery_attempts (
    tenant_id  BYTEA            NOT NULL,
    webhook_id BYTEA            NOT NULL,
    position   BIGINT           NOT NULL,
    number     BIGINT           NOT NULL,
    at         BIGINT           NOT NULL,
    duration   BIGINT           NOT NULL,
    status     BIGINT           NOT NULL,
    error      TEXT COLLATE "C" NOT NULL,
    response   BYTEA            NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, position, number)
);

-- Attempts of webhooks, by the hour.
CREATE TABLE webhook_hours (
    tenant_id   BYTEA  NOT NULL,
    webhook_id  BYTEA  NOT NULL,
    starts_at   BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    succeeded   BIGINT NOT NULL,
    latency     BIGINT NOT NULL,
    max_latency BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id, starts_at)
);

-- Replays of ranges of positions. position is that up to which deliveries are scheduled.
CREATE TABLE webhook_replays (
    tenant_id      BYTEA            NOT NULL,
    webhook_id     BYTEA            NOT NULL,
    replay_id      BYTEA            NOT NULL,
    first_position BIGINT           NOT NULL,
    last_position  BIGINT           NOT NULL,
    position       BIGINT           NOT NULL,
    rate           BIGINT           NOT NULL,
    failed_only    BIGINT           NOT NULL,
    scheduled      BIGINT           NOT NULL,
    actor          TEXT COLLATE "C" NOT NULL,
    created_at     BIGINT           NOT NULL,
    finished_at    BIGINT,
    PRIMARY KEY (tenant_id, webhook_id, replay_id)
);

-- As in 0005. Most webhooks have few deliveries, and some have nearly all.
ALTER TABLE deliveries ALTER COLUMN tenant_id SET (n_distinct = 1), ALTER COLUMN webhook_id SET (n_distinct = 1);
ALTER TABLE delivery_attempts ALTER COLUMN tenant_id SET (n_distinct = 1), ALTER COLUMN webhook_id SET (n_distinct = 1);
ALTER TABLE webhook_hours ALTER COLUMN tenant_id SET (n_distinct = 1), ALTER COLUMN webhook_id SET (n_distinct = 1);
