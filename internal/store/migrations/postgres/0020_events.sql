-- The events of a tenant (store/events). A tenant without a row never had any. next_position is the position
-- of the next event. Transactions that lock this row assign positions, one after the other.
CREATE TABLE event_feeds (
    tenant_id     BYTEA  NOT NULL PRIMARY KEY,
    enabled       BIGINT NOT NULL,
    enabled_at    BIGINT NOT NULL,
    next_position BIGINT NOT NULL
);

-- Events without a position: one row for each transaction that caused some. refs names what they are about
-- (store/kernel/eventrefs.go), and has no content.
CREATE TABLE event_outbox (
    tenant_id BYTEA  NOT NULL,
    at        BIGINT NOT NULL,
    outbox_id BYTEA  NOT NULL,
    refs      BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, at, outbox_id)
);

ALTER TABLE event_outbox ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005

-- Events with positions, from first_position to last_position: a row for each row of event_outbox.
CREATE TABLE event_log (
    tenant_id      BYTEA  NOT NULL,
    first_position BIGINT NOT NULL,
    last_position  BIGINT NOT NULL,
    at             BIGINT NOT NULL,
    refs           BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, first_position)
);

ALTER TABLE event_log ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005
