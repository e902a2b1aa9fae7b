-- How entries came into the database (store/entries/origin.go). These are null for entries that were
-- stored before this migration.
ALTER TABLE entries ADD COLUMN rule INTEGER;
ALTER TABLE entries ADD COLUMN submitted_by BLOB;
ALTER TABLE entries ADD COLUMN request_id BLOB;
