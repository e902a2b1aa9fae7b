-- The events of a tenant (store/events). A tenant without a row never had any. next_position is the position
-- of the next event. Transactions that lock this row assign positions, one after the other.
CREATE TABLE event_feeds (
    tenant_id     BLOB    NOT NULL PRIMARY KEY,
    enabled       INTEGER NOT NULL,
    enabled_at    INTEGER NOT NULL,
    next_position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Events without a position: one row for each transaction that caused some. refs names what they are about
-- (store/kernel/eventrefs.go), and has no content.
CREATE TABLE event_outbox (
    tenant_id BLOB    NOT NULL,
    at        INTEGER NOT NULL,
    outbox_id BLOB    NOT NULL,
    refs      BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, at, outbox_id)
) STRICT, WITHOUT ROWID;

-- Events with positions, from first_position to last_position: a row for each row of event_outbox.
CREATE TABLE event_log (
    tenant_id      BLOB    NOT NULL,
    first_position INTEGER NOT NULL,
    last_position  INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    refs           BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, first_position)
) STRICT, WITHOUT ROWID;
