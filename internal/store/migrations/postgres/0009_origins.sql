-- How entries came into the database (store/entries/origin.go). These are null for entries that were
-- stored before this migration. Adding them rewrites no rows.
ALTER TABLE entries ADD COLUMN rule BIGINT;
ALTER TABLE entries ADD COLUMN submitted_by BYTEA;
ALTER TABLE entries ADD COLUMN request_id BYTEA;
