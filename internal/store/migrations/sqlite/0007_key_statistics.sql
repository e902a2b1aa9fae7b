-- SQLite keeps no statistics.
SELECT 1;
