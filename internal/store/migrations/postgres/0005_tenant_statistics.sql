-- PostgreSQL plans each statement once for all tenants (store/engine/postgres). If most tenants
-- have one row in a table, the planner estimates that an index condition on the tenant alone,
-- with a filter or a join filter, costs as little as one on the whole key. It then reads all rows
-- of a large tenant for each row that it needs. With n_distinct = 1 it expects as many rows as
-- the most common tenant has, or all of them. The same holds for the versions of an audience.
--
-- Citus does not apply such options to the shards.
DO $$
DECLARE
    name TEXT;
BEGIN
    IF to_regclass('pg_dist_partition') IS NOT NULL THEN
        RETURN;
    END IF;
    FOREACH name IN ARRAY ARRAY['accounts', 'prospects', 'account_prospects', 'search_terms', 'entries', 'moves',
        'moved_entries', 'erasures', 'brands', 'pages', 'audiences', 'versions', 'schedules', 'audit', 'requests']
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN tenant_id SET (n_distinct = 1)', name);
    END LOOP;
    ALTER TABLE versions ALTER COLUMN audience_id SET (n_distinct = 1);
END $$;
