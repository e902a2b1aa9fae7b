-- A rotated key has its former secret until previous_ends_at. last_used_at is
-- written by the minute, not by the request.

ALTER TABLE api_keys ADD COLUMN previous_hash BYTEA;
ALTER TABLE api_keys ADD COLUMN previous_ends_at BIGINT;
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;
