-- Domains of more than 1,025 characters. The rows of accounts have only the beginning, which
-- contains all words that can be searched (store/accounts/domains.go). Statements that find or
-- update accounts do not read the rest.
CREATE TABLE long_domains (
    tenant_id  BYTEA            NOT NULL,
    account_id BYTEA            NOT NULL,
    domain     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
);

ALTER TABLE long_domains ALTER COLUMN tenant_id SET (n_distinct = 1); -- as in 0005

INSERT INTO long_domains (tenant_id, account_id, domain)
    SELECT tenant_id, account_id, domain FROM accounts WHERE octet_length(domain) > 1024 AND length(domain) > 1025;
UPDATE accounts SET domain = substr(domain, 1, 1025) WHERE octet_length(domain) > 1024 AND length(domain) > 1025;
