package accounts

import (
	"context"
	"errors"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file lists accounts and searches them. An account that was merged into another
// is never shown itself: what is found of it shows the other one, its survivor.

// A listedAccount is an account with what decides its place in a list. Of a long domain
// it has the beginning.
type listedAccount struct {
	atrium.Account
	survivor    atrium.AccountID // "" for one that stands for itself
	minute      int64            // of its newest activity
	domainBytes int
}

func (a *listedAccount) bytes() int { return a.domainBytes + len(a.Name) }

// listedColumns returns the columns of a listedAccount of a tenant, which is a parameter or a
// column of a batch.
func listedColumns(tenant string) string {
	return accountRow + ", a.survivor_id, a.active_minute, " + wholeDomain(tenant, "octet_length(d.domain)", "octet_length(a.domain)")
}

var selectAccounts = "SELECT " + listedColumns("$1") + " FROM accounts a WHERE tenant_id = "

func scanListed(r engine.Row, tenant atrium.TenantID) listedAccount {
	return listedAccount{ScanAccount(r, tenant), kernel.IDAt[atrium.AccountID](r, afterAccount), r.Int(afterAccount + 1), int(r.Int(afterAccount + 2))}
}

var (
	listedByID = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id`, "tenant_id bytea", "id bytea")
	listedByDomain = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.hash`, "tenant_id bytea", "hash bytea")
	// By itself, the condition would not have SQLite use the index for the other columns.
	listedBySurvivor = engine.NewBatch("SELECT "+listedColumns("batch.tenant_id")+` FROM batch
		JOIN accounts m ON m.tenant_id = batch.tenant_id AND m.survivor_id = batch.id
		JOIN accounts a ON a.tenant_id = m.tenant_id AND a.account_id = m.account_id`, "tenant_id bytea", "id bytea")
)

// An accountList is one page of a list of accounts.
type accountList struct {
	tx     engine.Tx
	tenant atrium.TenantID
	filter atrium.AccountFilter
	order  atrium.AccountOrder
	atOnce int // how many were judged at once, where more were too many; 0 for any
}

// A candidate is a row of one: the account that is shown if it belongs to the list,
// with no identifier if there is none.
type candidate struct {
	shown listedAccount
	own   listedAccount // the one that was found, which may be merged into it
	hit   hit           // in an order of terms
}

// Accounts returns up to limit accounts in an order, those that the filter lets pass
// and that come after the position, or from the first for nil, and the position from
// which the list goes on, nil at its end. There may be fewer while it goes on: the
// rows that one call reads are bounded.
//
// An Account is in the list of a domain that it or one merged into it has, and is
// found by the words of each of these alone. AccountsWord needs Words.
func (s *Store) Accounts(ctx context.Context, tenant atrium.TenantID, f atrium.AccountFilter, order atrium.AccountOrder,
	after *atrium.Position, limit int,
) (found []atrium.Account, next *atrium.Position, err error) {
	f.NamePrefix = canonical.Name(f.NamePrefix)
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		l := &accountList{tx: tx, tenant: tenant, filter: f, order: order}
		read, judge := l.read, l.judge
		if f.Domain != "" {
			l.order, read = atrium.AccountsNewest, l.withDomain
		} else if (order == atrium.AccountsNewest || order == atrium.AccountsActivity) && f.NamePrefix == "" && f.ActiveSince == nil && len(f.Words) == 0 {
			judge = nil
		}
		page, position, err := kernel.ScanPage(after, limit, read, judge)
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
func (l *accountList) read(after *atrium.Position, n int) ([]kernel.ScannedRow[candidate], error) {
	switch l.order {
	case atrium.AccountsName:
		prefix := accountNamed + canonical.Cut(l.filter.NamePrefix, maxTerm)
		to := prefix
		if l.filter.NamePrefix == "" {
			to = accountUnnamed
		}
		return l.search(prefix, to, after, n)
	case atrium.AccountsWord:
		prefix := sought(accountWord, l.filter.Words)
		return l.search(prefix, prefix, after, n)
	case atrium.AccountsActivity:
		q := kernel.Select(selectAccounts, kernel.IDArg(l.tenant))
		if since := l.filter.ActiveSince; since != nil {
			q.Add(" AND active_minute >= ", int64(*since)/perMinute)
		}
		return l.inOrder(q, "active_minute", after, n, func(a *listedAccount) int64 { return a.minute })
	default:
		return l.inOrder(kernel.Select(selectAccounts, kernel.IDArg(l.tenant)), "created_at", after, n,
			func(a *listedAccount) int64 { return int64(a.CreatedAt) })
	}
}

// inOrder returns accounts that stand for themselves, those with the highest key first.
func (l *accountList) inOrder(q *kernel.SelectBuilder, key string, after *atrium.Position, n int, keyOf func(*listedAccount) int64) (rows []kernel.ScannedRow[candidate], err error) {
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
		rows = append(rows, kernel.ScannedRow[candidate]{Value: candidate{shown: a, own: a}, Position: *at, Bytes: a.bytes()})
		bytes += a.bytes()
		return nil
	})
	return rows, err
}

// withDomain returns the account that a domain leads to, in any spelling.
func (l *accountList) withDomain(*atrium.Position, int) (rows []kernel.ScannedRow[candidate], err error) {
	var own listedAccount
	domain, legacy := canonical.DomainForms(l.filter.Domain)
	if _, err := l.tx.Batch(listedByDomain, FormRows(l.tenant, domain, legacy), func(r engine.Row) error {
		if a := scanListed(r, l.tenant); own.ID == "" || CompareAge(&a.Account, &own.Account) < 0 {
			own = a
		}
		return nil
	}); err != nil || own.ID == "" {
		return nil, err
	}
	shown, err := l.survivors(map[atrium.AccountID]listedAccount{own.ID: own})
	return []kernel.ScannedRow[candidate]{{Value: candidate{shown: shown[own.ID], own: own}}}, err
}

// search returns the accounts of terms.
func (l *accountList) search(from, to string, after *atrium.Position, n int) (rows []kernel.ScannedRow[candidate], err error) {
	found, err := hits(l.tx, l.tenant, from, to, after, n)
	if err != nil {
		return nil, err
	}
	_, err = kernel.HalveUntilFits(found, func(found []hit) (err error) {
		rows, err = l.ofHits(found)
		return err
	})
	return rows, err
}

// ofHits returns the accounts of terms, or kernel.ErrFull if several have more than kernel.ListBytes.
func (l *accountList) ofHits(found []hit) (rows []kernel.ScannedRow[candidate], err error) {
	ids := make([]engine.Args, len(found))
	for i, h := range found {
		ids[i] = engine.Args{kernel.IDArg(l.tenant), kernel.PackID(h.id)}
	}
	own, err := l.byID(ids)
	if err != nil {
		return nil, err
	}
	shown, err := l.survivors(own)
	for _, h := range found {
		a := own[atrium.AccountID(atrium.AccountID("").Prefix()+h.id)]
		survivor := shown[a.ID]
		rows = append(rows, kernel.ScannedRow[candidate]{Value: candidate{survivor, a, h}, Position: h.position(), Bytes: survivor.bytes()})
	}
	return rows, err
}

// byID returns the accounts that there are, or kernel.ErrFull if several have more than
// kernel.ListBytes.
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

// survivors returns what each of some accounts is shown as, or kernel.ErrFull as byID does.
func (l *accountList) survivors(own map[atrium.AccountID]listedAccount) (map[atrium.AccountID]listedAccount, error) {
	shown := make(map[atrium.AccountID]listedAccount, len(own))
	var ids []engine.Args
	for id, a := range own {
		if a.survivor != "" {
			ids = append(ids, engine.Args{kernel.IDArg(l.tenant), kernel.IDArg(a.survivor)})
		} else {
			shown[id] = a
		}
	}
	survivors, err := l.byID(ids)
	for id, a := range own {
		if a.survivor != "" {
			shown[id] = survivors[a.survivor]
		}
	}
	return shown, err
}

// judge says which of the first rows belong to the list.
func (l *accountList) judge(rows []kernel.ScannedRow[candidate]) (passes []bool, others int, err error) {
	f := &l.filter
	passes = make([]bool, len(rows))
	for i := range rows {
		c := &rows[i].Value
		passes[i] = c.shown.ID != "" && (f.NamePrefix == "" || strings.HasPrefix(canonical.Name(c.shown.Name), f.NamePrefix)) &&
			(f.ActiveSince == nil || c.shown.LatestActivityAt != nil && *c.shown.LatestActivityAt >= *f.ActiveSince) &&
			(l.order != atrium.AccountsName || c.own.survivor == "") // or it would be shown in the place of another
	}
	if len(f.Words) == 0 {
		return passes, 0, nil
	}
	if l.atOnce > 0 {
		rows = rows[:min(len(rows), 2*l.atOnce)]
	}
	rows, err = kernel.HalveUntilFits(rows, func(rows []kernel.ScannedRow[candidate]) (err error) {
		others, err = l.judgeWords(rows, passes[:len(rows)])
		return err
	})
	if errors.Is(err, kernel.ErrPageFull) {
		l.atOnce, err = len(rows), nil
	}
	return passes[:len(rows)], others, err
}

// judgeWords takes from those that pass whose words are others. A search comes upon
// an account by each of its terms, and by those of each account merged into it, and
// passes it at the first of them all. It returns how many accounts it has read, and
// kernel.ErrFull if those of several rows are more than kernel.ScanLimit or have more than kernel.ListBytes.
func (l *accountList) judgeWords(rows []kernel.ScannedRow[candidate], passes []bool) (others int, err error) {
	searching := l.order == atrium.AccountsWord
	groups := map[atrium.AccountID][]listedAccount{} // of the accounts of whose own words it cannot be told
	for i := range rows {
		c := &rows[i].Value
		if !passes[i] {
			continue
		}
		switch own := l.finds(&c.own); {
		case searching && own != c.hit:
			passes[i] = false
		case searching || own == hit{}:
			groups[c.shown.ID] = []listedAccount{c.shown}
		}
	}
	ids := make([]engine.Args, 0, len(groups))
	for id := range groups {
		ids = append(ids, engine.Args{kernel.IDArg(l.tenant), kernel.IDArg(id)})
	}
	bytes := 0
	if _, err := l.tx.Batch(listedBySurvivor, ids, func(r engine.Row) error {
		if len(rows) > 1 && (others == kernel.ScanLimit || bytes > kernel.ListBytes) {
			return kernel.ErrPageFull
		}
		a := scanListed(r, l.tenant)
		groups[a.survivor] = append(groups[a.survivor], a)
		bytes += a.bytes()
		others++
		return nil
	}); err != nil {
		return others, err
	}
	for i := range rows {
		c := &rows[i].Value
		group, unsure := groups[c.shown.ID]
		if !passes[i] || !unsure {
			continue
		}
		var first hit
		for j := range group {
			if h := l.finds(&group[j]); h.term != "" && (first.term == "" || h.compare(first) < 0) {
				first = h
			}
		}
		passes[i] = first.term != "" && (!searching || first == c.hit)
	}
	return others, nil
}

// finds returns the first hit by which an account is found that has all words, and
// none for any other.
func (l *accountList) finds(a *listedAccount) hit {
	terms := accountTerms(&a.Account)
	if !terms.beginAll(accountWord, l.filter.Words) {
		return hit{}
	}
	return hit{terms.beginning(accountWord, longest(l.filter.Words)), suffix(a.ID)}
}
