-- Numbers of entries by time of storage, source and type, in UTC (store/counts). hours is the length of a
-- period, 1 or 24, which starts at starts_at. The first 1,000 combinations of source and type are counted
-- separately; entries with others are counted with an empty source and type. pass numbers the counting of
-- all entries: a recount has the next number.
CREATE TABLE entry_counts (
    tenant_id BYTEA            NOT NULL,
    pass      BIGINT           NOT NULL,
    hours     BIGINT           NOT NULL,
    starts_at BIGINT           NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    type      TEXT COLLATE "C" NOT NULL,
    entries   BIGINT           NOT NULL,
    PRIMARY KEY (tenant_id, pass, hours, starts_at, source, type)
);

-- The combinations of source and type that are counted separately.
CREATE TABLE entry_count_types (
    tenant_id BYTEA            NOT NULL,
    pass      BIGINT           NOT NULL,
    source    TEXT COLLATE "C" NOT NULL,
    type      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, pass, source, type)
);

-- Which entries are counted: the timely ones (store/counts/counts.go) with an identifier up to timely_after,
-- and the others up to untimely_after. types is the number of rows of entry_count_types. recounted_at is when
-- the pass began. The columns next_… are those of a recount, NULL while none runs. Every transaction that
-- counts or deletes counted entries increments version.
CREATE TABLE entry_counting (
    tenant_id           BYTEA  NOT NULL PRIMARY KEY,
    version             BIGINT NOT NULL,
    pass                BIGINT NOT NULL,
    types               BIGINT NOT NULL,
    untimely_after      BYTEA  NOT NULL,
    timely_after        BYTEA  NOT NULL,
    recounted_at        BIGINT NOT NULL,
    next_types          BIGINT,
    next_untimely_after BYTEA,
    next_timely_after   BYTEA
);
