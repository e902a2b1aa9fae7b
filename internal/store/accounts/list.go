package accounts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file lists and searches accounts. Merged accounts are not shown: if one matches, its
// survivor is shown.

// A listedAccount is an account with the columns that determine its place in a list. A long domain
// is truncated.
type listedAccount struct {
	atrium.Account
	survivor    atrium.AccountID // "" if it is not merged
	minute      int64            // active_minute
	domainBytes int
}

func (a *listedAccount) bytes() int { return a.domainBytes + len(a.Name) }

// listedColumns returns the columns of a listedAccount. tenant is SQL for the tenant: a parameter
// or a column of a batch.
func listedColumns(tenant string) string {
	return accountRowColumns(tenant) + ", a.survivor_id, a.active_minute, " + domainSQL(tenant, "octet_length(d.domain)", "octet_length(a.domain)")
}

var selectAccounts = "SELECT " + listedColumns("$1") + " FROM accounts a WHERE tenant_id = "

func scanListed(r engine.Row, tenant atrium.TenantID) listedAccount {
	return listedAccount{ScanAccount(r, tenant), kernel.IDAt[atrium.AccountID](r, accountRowLen), r.Int(accountRowLen + 1), int(r.Int(accountRowLen + 2))}
}

var (
	listedByID = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id`, "tenant_id bytea", "id bytea")
	listedByDomain = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.hash`, "tenant_id bytea", "hash bytea")
	// The two steps make SQLite use the indexes: it would not use the one on survivor_id to read
	// other columns.
	listedBySurvivor = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch
		JOIN accounts m ON m.tenant_id = batch.tenant_id AND m.survivor_id = batch.id
		JOIN accounts a ON a.tenant_id = m.tenant_id AND a.account_id = m.account_id`, "tenant_id bytea", "id bytea")
)

// An accountList reads one page of a list of accounts.
type accountList struct {
	tx         engine.Tx
	tenant     atrium.TenantID
	filter     atrium.AccountFilter
	order      atrium.AccountOrder
	filterSize int // rows per call of filterByWords, after a larger call exceeded its limits; 0 for no limit
}

// A match is a row of an accountList. If shown has no identifier, there is no account to show.
type match struct {
	shown   listedAccount
	matched listedAccount // the account itself, which may be merged into shown
	hit     hit           // set in lists ordered by search term
}

// Accounts returns a page of up to limit accounts that pass the filter, after a position, nil for
// the first page. next is the position to continue after, nil at the end. A page may be short
// before the end, because one call reads a limited number of rows.
//
// An account matches a domain that it or an account merged into it has. It matches words if all of
// them match in one account: itself or one merged into it. The order AccountsWord requires f.Words.
func (s *Store) Accounts(ctx context.Context, tenant atrium.TenantID, f atrium.AccountFilter, order atrium.AccountOrder,
	after *atrium.Position, limit int,
) (found []atrium.Account, next *atrium.Position, err error) {
	f.NamePrefix = canonical.Name(f.NamePrefix)
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		l := &accountList{tx: tx, tenant: tenant, filter: f, order: order}
		read, filter := l.read, l.filterRows
		switch {
		case len(f.IDs) > 0:
			l.order, read = atrium.AccountsNewest, l.listed
		case f.Domain != "":
			l.order, read = atrium.AccountsNewest, l.byDomain
		case (order == atrium.AccountsNewest || order == atrium.AccountsActivity) && f.NamePrefix == "" && f.ActiveSince == nil && len(f.Words) == 0:
			filter = nil
		}
		page, position, err := kernel.ScanPage(after, limit, read, filter)
		if err != nil {
			return err
		}
		accounts := kernel.Items[atrium.Account]{Values: make([]atrium.Account, 0, len(page))}
		for i := range page {
			a := &page[i].shown
			accounts.Add(kernel.Item[atrium.Account]{Value: a.Account, Partial: a.domainBytes > len(a.Domain)})
		}
		next = position
		found, err = kernel.CompleteItems(tx, tenant, accounts, AccountsByID, func(r engine.Row) atrium.Account { return ScanAccount(r, tenant) },
			func(a *atrium.Account) atrium.AccountID { return a.ID })
		return err
	})
	return found, next, err
}

// read returns rows in the order of the list.
func (l *accountList) read(after *atrium.Position, n int) ([]kernel.ScannedRow[match], error) {
	switch l.order {
	case atrium.AccountsName:
		prefix := accountNamed + canonical.Truncate(l.filter.NamePrefix, maxTermBytes)
		to := prefix
		if l.filter.NamePrefix == "" {
			to = accountUnnamed
		}
		return l.search(prefix, to, after, n)
	case atrium.AccountsWord:
		prefix := searchPrefix(accountWord, l.filter.Words)
		return l.search(prefix, prefix, after, n)
	case atrium.AccountsActivity:
		q := kernel.Select(selectAccounts, kernel.IDArg(l.tenant))
		if since := l.filter.ActiveSince; since != nil {
			q.Add(" AND active_minute >= ", int64(*since)/microsPerMinute)
		}
		return l.scanByKey(q, "active_minute", after, n, func(a *listedAccount) int64 { return a.minute })
	default:
		return l.scanByKey(kernel.Select(selectAccounts, kernel.IDArg(l.tenant)), "created_at", after, n,
			func(a *listedAccount) int64 { return int64(a.CreatedAt) })
	}
}

// scanByKey returns accounts that are not merged, sorted by key, highest first.
func (l *accountList) scanByKey(q *kernel.SelectBuilder, key string, after *atrium.Position, n int, keyOf func(*listedAccount) int64) (rows []kernel.ScannedRow[match], err error) {
	q.SQL.WriteString(" AND survivor_id IS NULL")
	q.After(key, "account_id", after)
	q.Add(" ORDER BY "+key+" DESC, account_id DESC LIMIT ", int64(n))
	bytes := 0
	err = l.tx.Query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if bytes >= kernel.ListBytes {
			return kernel.ErrPageFull
		}
		a := scanListed(r, l.tenant)
		at := atrium.PositionAt(atrium.Time(keyOf(&a)), a.ID)
		rows = append(rows, kernel.ScannedRow[match]{Value: match{shown: a, matched: a}, Position: *at, Bytes: a.bytes()})
		bytes += a.bytes()
		return nil
	})
	return rows, err
}

// byDomain returns the account that a domain in any spelling leads to.
func (l *accountList) byDomain(*atrium.Position, int) (rows []kernel.ScannedRow[match], err error) {
	var matched listedAccount
	domain, legacy := canonical.DomainForms(l.filter.Domain)
	if _, err := l.tx.Batch(listedByDomain, DomainFormRows(l.tenant, domain, legacy), func(r engine.Row) error {
		if a := scanListed(r, l.tenant); matched.ID == "" || CompareAge(&a.Account, &matched.Account) < 0 {
			matched = a
		}
		return nil
	}); err != nil || matched.ID == "" {
		return nil, err
	}
	shown, err := l.survivors(map[atrium.AccountID]listedAccount{matched.ID: matched})
	return []kernel.ScannedRow[match]{{Value: match{shown: shown[matched.ID], matched: matched}}}, err
}

// listed returns the accounts that the identifiers of the filter, and its domain if it has one, lead to.
func (l *accountList) listed(after *atrium.Position, n int) (rows []kernel.ScannedRow[match], err error) {
	var only atrium.AccountID // that the domain leads to
	if l.filter.Domain != "" {
		found, err := l.byDomain(nil, 1)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		only = found[0].Value.shown.ID
	}
	ids := make([]engine.Args, len(l.filter.IDs))
	for i, id := range l.filter.IDs {
		ids[i] = engine.Args{kernel.IDArg(l.tenant), kernel.IDArg(id)}
	}
	matched, err := l.byID(ids)
	if err != nil {
		return nil, err
	}
	shown, err := l.survivors(matched)
	if err != nil {
		return nil, err
	}
	once := map[atrium.AccountID]bool{}
	for id, a := range shown {
		at := *atrium.PositionAt(a.CreatedAt, a.ID)
		if once[a.ID] || only != "" && a.ID != only || after != nil && newerFirst(at, *after) <= 0 {
			continue
		}
		once[a.ID] = true
		rows = append(rows, kernel.ScannedRow[match]{Value: match{shown: a, matched: matched[id]}, Position: at, Bytes: a.bytes()})
	}
	slices.SortFunc(rows, func(a, b kernel.ScannedRow[match]) int { return newerFirst(a.Position, b.Position) })
	return rows[:min(len(rows), n)], nil
}

// newerFirst compares positions in the order AccountsNewest.
func newerFirst(a, b atrium.Position) int {
	return cmp.Or(cmp.Compare(b.Key, a.Key), cmp.Compare(b.ID, a.ID))
}

// search returns the accounts whose terms are in a range.
func (l *accountList) search(from, to string, after *atrium.Position, n int) (rows []kernel.ScannedRow[match], err error) {
	found, err := findHits(l.tx, l.tenant, from, to, after, n)
	if err != nil {
		return nil, err
	}
	_, err = kernel.HalveUntilFits(found, func(found []hit) (err error) {
		rows, err = l.accountsOfHits(found)
		return err
	})
	return rows, err
}

// accountsOfHits returns the accounts of search hits. It returns kernel.ErrPageFull if several
// accounts have more than kernel.ListBytes.
func (l *accountList) accountsOfHits(found []hit) (rows []kernel.ScannedRow[match], err error) {
	ids := make([]engine.Args, len(found))
	for i, h := range found {
		ids[i] = engine.Args{kernel.IDArg(l.tenant), kernel.PackID(h.id)}
	}
	matched, err := l.byID(ids)
	if err != nil {
		return nil, err
	}
	shown, err := l.survivors(matched)
	for _, h := range found {
		a := matched[atrium.AccountID(atrium.AccountID("").Prefix()+h.id)]
		survivor := shown[a.ID]
		rows = append(rows, kernel.ScannedRow[match]{Value: match{survivor, a, h}, Position: h.position(), Bytes: survivor.bytes()})
	}
	return rows, err
}

// byID returns those of the accounts that exist. It returns kernel.ErrPageFull if several accounts
// have more than kernel.ListBytes.
func (l *accountList) byID(ids []engine.Args) (map[atrium.AccountID]listedAccount, error) {
	found, bytes := make(map[atrium.AccountID]listedAccount, len(ids)), 0
	_, err := l.tx.Batch(listedByID, ids, func(r engine.Row) error {
		if bytes > kernel.ListBytes && len(ids) > 1 {
			return kernel.ErrPageFull
		}
		a := scanListed(r, l.tenant)
		found[a.ID] = a
		bytes += a.bytes()
		return nil
	})
	return found, err
}

// survivors returns the account to show for each matched account. It returns kernel.ErrPageFull
// like byID.
func (l *accountList) survivors(matched map[atrium.AccountID]listedAccount) (map[atrium.AccountID]listedAccount, error) {
	shown := make(map[atrium.AccountID]listedAccount, len(matched))
	var ids []engine.Args
	for id, a := range matched {
		if a.survivor != "" {
			ids = append(ids, engine.Args{kernel.IDArg(l.tenant), kernel.IDArg(a.survivor)})
		} else {
			shown[id] = a
		}
	}
	survivors, err := l.byID(ids)
	for id, a := range matched {
		if a.survivor != "" {
			shown[id] = survivors[a.survivor]
		}
	}
	return shown, err
}

// filterRows is the filter for kernel.ScanPage.
func (l *accountList) filterRows(rows []kernel.ScannedRow[match]) (keep []bool, extra int, err error) {
	f := &l.filter
	keep = make([]bool, len(rows))
	for i := range rows {
		m := &rows[i].Value
		keep[i] = m.shown.ID != "" && (f.NamePrefix == "" || strings.HasPrefix(canonical.Name(m.shown.Name), f.NamePrefix)) &&
			(f.ActiveSince == nil || m.shown.LatestActivityAt != nil && *m.shown.LatestActivityAt >= *f.ActiveSince) &&
			(l.order != atrium.AccountsName || m.matched.survivor == "") // otherwise the survivor would be sorted by another account's name
	}
	if len(f.Words) == 0 {
		return keep, 0, nil
	}
	if l.filterSize > 0 {
		rows = rows[:min(len(rows), 2*l.filterSize)]
	}
	rows, err = kernel.HalveUntilFits(rows, func(rows []kernel.ScannedRow[match]) (err error) {
		extra, err = l.filterByWords(rows, keep[:len(rows)])
		return err
	})
	if errors.Is(err, kernel.ErrPageFull) {
		l.filterSize, err = len(rows), nil
	}
	return keep[:len(rows)], extra, err
}

// filterByWords clears keep for rows that do not match the words. A search finds an account once
// for each of its matching terms, and for those of each account merged into it. Only the first of
// all these hits is kept. It returns how many extra accounts it read. It returns
// kernel.ErrPageFull if the extra accounts of several rows are more than kernel.ScanLimit or have
// more than kernel.ListBytes.
func (l *accountList) filterByWords(rows []kernel.ScannedRow[match], keep []bool) (extra int, err error) {
	searching := l.order == atrium.AccountsWord
	groups := map[atrium.AccountID][]listedAccount{} // accounts whose matches depend on merged accounts
	for i := range rows {
		m := &rows[i].Value
		if !keep[i] {
			continue
		}
		switch first := l.firstHit(&m.matched); {
		case searching && first != m.hit:
			keep[i] = false
		case searching || first == hit{}:
			groups[m.shown.ID] = []listedAccount{m.shown}
		}
	}
	ids := make([]engine.Args, 0, len(groups))
	for id := range groups {
		ids = append(ids, engine.Args{kernel.IDArg(l.tenant), kernel.IDArg(id)})
	}
	bytes := 0
	if _, err := l.tx.Batch(listedBySurvivor, ids, func(r engine.Row) error {
		if len(rows) > 1 && (extra == kernel.ScanLimit || bytes > kernel.ListBytes) {
			return kernel.ErrPageFull
		}
		a := scanListed(r, l.tenant)
		groups[a.survivor] = append(groups[a.survivor], a)
		bytes += a.bytes()
		extra++
		return nil
	}); err != nil {
		return extra, err
	}
	for i := range rows {
		m := &rows[i].Value
		group, undecided := groups[m.shown.ID]
		if !keep[i] || !undecided {
			continue
		}
		var first hit
		for j := range group {
			if h := l.firstHit(&group[j]); h.term != "" && (first.term == "" || h.compare(first) < 0) {
				first = h
			}
		}
		keep[i] = first.term != "" && (!searching || first == m.hit)
	}
	return extra, nil
}

// firstHit returns the first search hit of an account that matches all words, and the zero hit if
// it does not match.
func (l *accountList) firstHit(a *listedAccount) hit {
	terms := accountTerms(&a.Account)
	if !terms.matchAll(accountWord, l.filter.Words) {
		return hit{}
	}
	return hit{terms.firstWithPrefix(accountWord, longest(l.filter.Words)), suffix(a.ID)}
}

// Listed returns accounts in the order of ids, without those that do not exist or are merged. It returns
// at most kernel.ListBytes of names and domains, or one account.
func Listed(tx engine.Tx, tenant atrium.TenantID, ids []atrium.AccountID) ([]atrium.Account, error) {
	l := &accountList{tx: tx, tenant: tenant}
	var found map[atrium.AccountID]listedAccount
	ids, err := kernel.HalveUntilFits(ids, func(ids []atrium.AccountID) (err error) {
		rows := make([]engine.Args, len(ids))
		for i, id := range ids {
			rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
		}
		found, err = l.byID(rows)
		return err
	})
	if err != nil && !errors.Is(err, kernel.ErrPageFull) {
		return nil, err
	}
	var items kernel.Items[atrium.Account]
	for _, id := range ids {
		if a, ok := found[id]; ok && a.survivor == "" { // an account that is being erased is its own survivor
			items.Add(kernel.Item[atrium.Account]{Value: a.Account, Partial: a.domainBytes > len(a.Domain)})
		}
	}
	return kernel.CompleteItems(tx, tenant, items, AccountsByID, func(r engine.Row) atrium.Account { return ScanAccount(r, tenant) },
		func(a *atrium.Account) atrium.AccountID { return a.ID })
}
