-- After a rotation, the previous secret of a key is valid until previous_ends_at. last_used_at is
-- written in batches, not with every request.

ALTER TABLE api_keys ADD COLUMN previous_hash BLOB;
ALTER TABLE api_keys ADD COLUMN previous_ends_at INTEGER;
ALTER TABLE api_keys ADD COLUMN last_used_at INTEGER;
