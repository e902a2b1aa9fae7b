-- Domains of more than 1,025 characters. The rows of accounts have only the beginning, which
-- contains all words that can be searched (store/accounts/domains.go): a search by key reads the
-- whole row of each account that it passes.
CREATE TABLE long_domains (
    tenant_id  BLOB NOT NULL,
    account_id BLOB NOT NULL,
    domain     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
) STRICT;

INSERT INTO long_domains (tenant_id, account_id, domain)
    SELECT tenant_id, account_id, domain FROM accounts WHERE octet_length(domain) > 1024 AND length(domain) > 1025;
UPDATE accounts SET domain = substr(domain, 1, 1025) WHERE octet_length(domain) > 1024 AND length(domain) > 1025;
