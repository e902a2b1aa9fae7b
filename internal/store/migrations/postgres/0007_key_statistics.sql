-- PostgreSQL plans each statement once for all values. If one account has most of the links, the
-- planner expects that every account has as many, and reads the links of all accounts of a tenant
-- instead of those of one. With a negative n_distinct it expects few rows for each value, however
-- many rows there are, and always prefers the index of the value.
--
-- Citus does not apply such options to the shards.
DO $$
BEGIN
    IF to_regclass('pg_dist_partition') IS NOT NULL THEN
        RETURN;
    END IF;
    ALTER TABLE account_prospects
        ALTER COLUMN account_id SET (n_distinct = -0.1), ALTER COLUMN prospect_id SET (n_distinct = -0.5);
    ALTER TABLE entries ALTER COLUMN account_id SET (n_distinct = -0.1);
    ALTER TABLE accounts ALTER COLUMN survivor_id SET (n_distinct = -0.1);
    ALTER TABLE moves ALTER COLUMN to_account_id SET (n_distinct = -0.1);
    ALTER TABLE audit ALTER COLUMN subject SET (n_distinct = -0.1);
END $$;
