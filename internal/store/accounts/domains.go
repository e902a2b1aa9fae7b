package accounts

import (
	"cmp"
	"fmt"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file finds accounts by domain. An account created by an earlier version may be stored under
// a legacy form of its domain (canonical.DomainForms, ADR 0022). A domain with a legacy form
// matches the accounts of both forms, and the oldest of them is used. Only imports create accounts
// under a legacy form.

// The words in the first searchedBytes of a domain are searchable. An account's row stores domains
// of up to searchedBytes completely. It stores the first charactersInRow characters of longer ones.
// A stored prefix longer than searchedBytes tells readers that the complete domain is in
// long_domains. The prefix contains all searchable words.
const (
	searchedBytes   = 1 << 10
	charactersInRow = searchedBytes + 1
)

// DomainInRow returns the part of a domain that is stored in the account's row.
func DomainInRow(domain string) string {
	if len(domain) <= charactersInRow {
		return domain
	}
	n := 0
	for i := range domain {
		if n == charactersInRow {
			return domain[:i]
		}
		n++
	}
	return domain
}

// domainSQL returns a SQL expression that evaluates whole (over d.domain) if the domain of account
// a is in long_domains d, and row (over a.domain) otherwise. tenant is SQL for the tenant. The
// expression reads long_domains only for long domains.
func domainSQL(tenant, whole, row string) string {
	return fmt.Sprintf(`CASE WHEN octet_length(a.domain) <= %d THEN %s ELSE COALESCE(
		(SELECT %s FROM long_domains d WHERE d.tenant_id = %s AND d.account_id = a.account_id), %s) END`,
		searchedBytes, row, whole, tenant, row)
}

var insertLongDomains = engine.NewBatch(`INSERT INTO long_domains (tenant_id, account_id, domain)
	SELECT batch.tenant_id, account_id, domain FROM batch WHERE true ON CONFLICT (tenant_id, account_id) DO UPDATE SET domain = excluded.domain`,
	"tenant_id bytea", "account_id bytea", "domain text")

// LongDomains collects the long domains of new accounts.
type LongDomains []engine.Args

// Add adds the domain of a new account, unless the row stores it completely.
func (l *LongDomains) Add(a *atrium.Account) {
	if len(DomainInRow(a.Domain)) < len(a.Domain) {
		*l = append(*l, engine.Args{kernel.IDArg(a.TenantID), kernel.IDArg(a.ID), a.Domain})
	}
}

func (l LongDomains) Write(tx engine.Tx) error {
	if len(l) == 0 {
		return nil
	}
	_, err := tx.Batch(insertLongDomains, l, nil)
	return err
}

// ReplaceLongDomain updates long_domains for a changed account. before is nil for a new account,
// after is nil for a deleted one.
func ReplaceLongDomain(tx *kernel.Mutation, before, after *atrium.Account) error {
	if before != nil && len(before.Domain) > searchedBytes {
		if _, err := tx.Exec("DELETE FROM long_domains WHERE tenant_id = $1 AND account_id = $2", kernel.IDArg(before.TenantID), kernel.IDArg(before.ID)); err != nil {
			return err
		}
	}
	var long LongDomains
	if after != nil {
		long.Add(after)
	}
	return long.Write(tx)
}

// DomainFormRows returns batch rows that find accounts by a domain and its legacy form, which can
// be "".
func DomainFormRows(tenant atrium.TenantID, domain, legacy string) []engine.Args {
	rows := []engine.Args{{kernel.IDArg(tenant), kernel.Hash16(domain)}}
	if legacy != "" {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.Hash16(legacy)})
	}
	return rows
}

// CompareAge orders accounts of one tenant by age, oldest first.
func CompareAge(a, b *atrium.Account) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(string(a.ID), string(b.ID)))
}
