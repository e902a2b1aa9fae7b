package accounts

import (
	"cmp"
	"fmt"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file finds accounts by their domains. An account that an earlier version made
// may be stored under a legacy form of its domain (canonical.DomainForms, ADR 0022). A
// domain with a legacy form finds the accounts of both forms, and the oldest of them is
// the one that is meant. No account is made under a legacy form, except by an import.

// The words of the first searchedBytes of a domain can be searched. The row of an account has a
// domain of up to searchedBytes as a whole. Of a longer one it has the first charactersInRow
// characters, which exceed searchedBytes: that tells a reader to look into long_domains, and
// the row still contains all words that can be searched.
const (
	searchedBytes   = 1 << 10
	charactersInRow = searchedBytes + 1
)

// DomainInRow returns the part of a domain that the row of an account has.
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

// wholeDomain returns a SQL expression about the domain of an account a of a tenant: whole, in
// terms of d.domain, if the domain is in long_domains d, and row, in terms of a.domain,
// otherwise. It reads long_domains only for long domains.
func wholeDomain(tenant, whole, row string) string {
	return fmt.Sprintf(`CASE WHEN octet_length(a.domain) <= %d THEN %s ELSE COALESCE(
		(SELECT %s FROM long_domains d WHERE d.tenant_id = %s AND d.account_id = a.account_id), %s) END`,
		searchedBytes, row, whole, tenant, row)
}

var insertLongDomains = engine.NewBatch(`INSERT INTO long_domains (tenant_id, account_id, domain)
	SELECT batch.tenant_id, account_id, domain FROM batch WHERE true ON CONFLICT (tenant_id, account_id) DO UPDATE SET domain = excluded.domain`,
	"tenant_id bytea", "account_id bytea", "domain text")

// LongDomains are rows of insertLongDomains.
type LongDomains []engine.Args

// Add adds the domain of a new account, unless the row of the account has all of it.
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

// ReplaceLongDomain updates long_domains for an account that changes from was to is. was is nil
// for a new account, and is for a deleted one.
func ReplaceLongDomain(tx *kernel.Mutation, was, is *atrium.Account) error {
	if was != nil && len(was.Domain) > searchedBytes {
		if _, err := tx.Exec("DELETE FROM long_domains WHERE tenant_id = $1 AND account_id = $2", kernel.IDArg(was.TenantID), kernel.IDArg(was.ID)); err != nil {
			return err
		}
	}
	var long LongDomains
	if is != nil {
		long.Add(is)
	}
	return long.Write(tx)
}

// FormRows returns the rows of a batch that finds accounts by the forms of a domain, of
// which legacy may be "".
func FormRows(tenant atrium.TenantID, domain, legacy string) []engine.Args {
	rows := []engine.Args{{kernel.IDArg(tenant), kernel.Hash16(domain)}}
	if legacy != "" {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.Hash16(legacy)})
	}
	return rows
}

// CompareAge orders accounts of one tenant by age, the oldest first.
func CompareAge(a, b *atrium.Account) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(string(a.ID), string(b.ID)))
}
