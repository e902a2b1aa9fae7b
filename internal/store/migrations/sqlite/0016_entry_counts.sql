-- Numbers of entries by time of storage, source and type, in UTC (store/counts). hours is the length of a
-- period, 1 or 24, which starts at starts_at. The first 1,000 combinations of source and type are counted
-- separately; entries with others are counted with an empty source and type. pass numbers the counting of
-- all entries: a recount has the next number.
CREATE TABLE entry_counts (
    tenant_id BLOB    NOT NULL,
    pass      INTEGER NOT NULL,
    hours     INTEGER NOT NULL,
    starts_at INTEGER NOT NULL,
    source    TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    entries   INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, pass, hours, starts_at, source, type)
) STRICT, WITHOUT ROWID;

-- The combinations of source and type that are counted separately.
CREATE TABLE entry_count_types (
    tenant_id BLOB    NOT NULL,
    pass      INTEGER NOT NULL,
    source    TEXT    NOT NULL,
    type      TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, pass, source, type)
) STRICT, WITHOUT ROWID;

-- Which entries are counted: the timely ones (store/counts/counts.go) with an identifier up to timely_after,
-- and the others up to untimely_after. types is the number of rows of entry_count_types. recounted_at is when
-- the pass began. The columns next_… are those of a recount, NULL while none runs. Every transaction that
-- counts or deletes counted entries increments version.
CREATE TABLE entry_counting (
    tenant_id           BLOB    NOT NULL PRIMARY KEY,
    version             INTEGER NOT NULL,
    pass                INTEGER NOT NULL,
    types               INTEGER NOT NULL,
    untimely_after      BLOB    NOT NULL,
    timely_after        BLOB    NOT NULL,
    recounted_at        INTEGER NOT NULL,
    next_types          INTEGER,
    next_untimely_after BLOB,
    next_timely_after   BLOB
) STRICT, WITHOUT ROWID;
