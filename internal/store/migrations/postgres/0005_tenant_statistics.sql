-- Plans are made once for all tenants (engine/postgres.go). Where most tenants have one row in a
-- table, the planner takes an index by tenant alone, with a filter or a join filter, for as good as
-- one by the whole key, and reads all rows of a large tenant for each row that it looks for. With
-- one distinct value it expects as many rows as the most common tenant has, or all of them. The
-- same holds for the versions of an audience.
--
-- Citus does not pass such options on to the tables on its servers.
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
