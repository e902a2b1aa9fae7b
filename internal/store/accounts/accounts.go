package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// AccountColumns returns the columns of an account a. tenant is SQL for its tenant: a parameter or
// a column of a batch.
func AccountColumns(tenant string) string {
	return strings.Replace(accountRowColumns(tenant), "a.domain", domainSQL(tenant, "domain", "a.domain"), 1)
}

// accountRowColumns is AccountColumns with long domains truncated.
func accountRowColumns(tenant string) string {
	return "a.account_id, a.domain, a.name, a.created_at, a.updated_at, " + latestActivity(tenant)
}

// accountRowLen is the number of columns in accountRowColumns.
const accountRowLen = 7

// ProspectColumns are the columns of a prospect p in the order in which ScanProspect reads them.
const ProspectColumns = `p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url,
	p.created_at, p.updated_at`

// ScanAccount reads AccountColumns or accountRowColumns, starting at column 0.
func ScanAccount(r engine.Row, tenant atrium.TenantID) atrium.Account {
	return atrium.Account{
		ID: kernel.IDAt[atrium.AccountID](r, 0), TenantID: tenant, Domain: r.Text(1), Name: r.Text(2),
		CreatedAt: atrium.Time(r.Int(3)), UpdatedAt: atrium.Time(r.Int(4)), LatestActivityAt: latestActivityAt(r, 5),
	}
}

// ScanProspect reads ProspectColumns, starting at the given column. It makes one allocation for
// all texts.
func ScanProspect(r engine.Row, first int, tenant atrium.TenantID) atrium.Prospect {
	var texts [6]string
	for i := range texts {
		texts[i] = r.Text(first + 1 + i)
	}
	text := func(i int) *string { return kernel.TextOrNil(r, first+1+i, &texts[i]) }
	return atrium.Prospect{
		ID: kernel.IDAt[atrium.ProspectID](r, first), TenantID: tenant,
		Name: text(0), Email: text(1), Domain: text(2), Slug: text(3), PhoneNumber: text(4), LinkedinProfileURL: text(5),
		CreatedAt: atrium.Time(r.Int(first + 7)), UpdatedAt: atrium.Time(r.Int(first + 8)),
	}
}

// How much of an account's prospects and merged accounts is buffered in memory. Above these
// limits, callers read streams instead.
const (
	maxDetailProspects = 200
	maxDetailBytes     = 256 << 10 // of their texts
)

// Account returns the account that id leads to, and its linked prospects, ordered by creation time
// and then by identifier. If the account id was merged, the result is its survivor. It returns
// NotFound if there is no such account, and ErrPartial if there are too many prospects to buffer.
func (s *Store) Account(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (atrium.Account, []atrium.Prospect, error) {
	d, err := findAccount(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return s.db.Engine.Query(ctx, sql, args, each)
	}, tenant, id, maxDetailProspects)
	if err == nil && d.More {
		return d.Account, nil, atrium.ErrPartial
	}
	return d.Account, d.Prospects, kernel.Public(err)
}

// findAccount is Account, reading with query at most a number of prospects; if there are more, none is returned.
// It follows survivor_id. Outside a transaction, a concurrent merge can add a step, which is rare.
func findAccount(query func(string, engine.Args, func(engine.Row) error) error, tenant atrium.TenantID, id atrium.AccountID, prospects int,
) (d atrium.AccountDetail, err error) {
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), int64(prospects) + 1}
	for range kernel.MaxTries {
		var survivor atrium.AccountID
		var bytes int
		d = atrium.AccountDetail{}
		err = engine.Find(query, accountWithProspects, args, func(r engine.Row) {
			if !r.Null(0) {
				d.Account, survivor = ScanAccount(r, tenant), kernel.IDAt[atrium.AccountID](r, accountRowLen)
				return
			}
			if d.More {
				return
			}
			p := ScanProspect(r, accountRowLen+1, tenant)
			if bytes += textBytes(&p); len(d.Prospects) == prospects || bytes > maxDetailBytes {
				d.Prospects, d.More = nil, true
				return
			}
			d.Prospects = append(d.Prospects, p)
		})
		if err == nil && d.ID == "" { // links of an account that is being erased
			err = engine.ErrNoRow
		}
		if err != nil || survivor == "" {
			slices.SortFunc(d.Prospects, compareLinked)
			return d, err
		}
		args[1] = kernel.IDArg(survivor)
	}
	return d, atrium.Unavailable(errors.New("the account is being merged too often"))
}

// compareLinked orders the prospects of an account by creation time and then by identifier.
func compareLinked(a, b atrium.Prospect) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// One statement takes one round trip to a database server and needs no transaction. The first row
// is the account, the others are its first prospects. With a join, a server would read and sort
// all links.
var accountWithProspects = "SELECT " + AccountColumns("$1") + `, a.survivor_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM accounts a
	WHERE a.tenant_id = $1 AND a.account_id = $2 AND ` + NotErased + `
	UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, x.* FROM (SELECT ` + ProspectColumns + ` FROM account_prospects l
		JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
		WHERE l.tenant_id = $1 AND l.account_id = $2 ORDER BY l.prospect_created_at, l.prospect_id LIMIT $3) x`

// textBytes returns the total length of a prospect's texts.
func textBytes(p *atrium.Prospect) (n int) {
	for _, text := range []*string{p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// AccountDetail is Account with the merged accounts.
func (s *Store) AccountDetail(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (d atrium.AccountDetail, err error) {
	if d, err = s.accountDetail(ctx, tenant, id, maxDetailProspects); err == nil && d.Partial() {
		err = atrium.ErrPartial
	}
	return d, err
}

// AccountGroup returns an account as AccountDetail does, but without its prospects. The merged accounts are left
// out if they are too large to buffer.
func (s *Store) AccountGroup(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (atrium.AccountDetail, error) {
	return s.accountDetail(ctx, tenant, id, 0)
}

// accountDetail is AccountDetail with at most a number of prospects, but leaves out what is too large to buffer
// instead of returning ErrPartial.
func (s *Store) accountDetail(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, prospects int) (d atrium.AccountDetail, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		d, err = findAccountDetail(tx, tenant, id, prospects)
		return err
	})
	return d, err
}

// findAccountDetail is accountDetail in a transaction.
func findAccountDetail(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID, prospects int) (d atrium.AccountDetail, err error) {
	if d, err = findAccount(tx.Query, tenant, id, prospects); err != nil {
		return d, err
	}
	rows, bytes, err := mergedRows(tx, tenant, d.ID)
	if d.MoreMerged = bytes > maxDetailBytes; d.MoreMerged || err != nil {
		return d, err
	}
	for i := range rows {
		m, err := rows[i].whole(tx, tenant)
		if err != nil {
			return d, err
		}
		d.Merged = append(d.Merged, m)
	}
	return d, nil
}

// lockAccount locks the account that id leads to and returns its identifier. It does not lock
// merged accounts, so that the lock order stays the same.
func lockAccount(tx *kernel.Mutation, id atrium.AccountID) (atrium.AccountID, error) {
	tenant := kernel.IDArg(tx.Change.TenantID)
	for range kernel.MaxTries {
		err := engine.Find(tx.Lock, "SELECT account_id FROM accounts WHERE tenant_id = $1 AND account_id = $2 AND survivor_id IS NULL",
			engine.Args{tenant, kernel.IDArg(id)}, func(engine.Row) {})
		if !errors.Is(err, engine.ErrNoRow) {
			return id, err
		}
		var survivor atrium.AccountID
		if err := engine.Find(tx.Query, "SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+NotErased,
			engine.Args{tenant, kernel.IDArg(id)}, func(r engine.Row) { survivor = kernel.IDAt[atrium.AccountID](r, 0) }); err != nil {
			return "", err
		}
		id = cmp.Or(survivor, id)
	}
	return "", ErrGroupChanged
}

func accountFields(a *atrium.Account) kernel.Fields {
	return kernel.Fields{"domain": a.Domain, "name": kernel.Nullable(a.Name)}
}

var updateAccounts = engine.NewBatch(`UPDATE accounts SET domain = batch.domain, domain_hash = batch.domain_hash,
		name = batch.name, name_hash = batch.name_hash, updated_at = batch.updated_at
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
	"tenant_id bytea", "account_id bytea", "domain text", "domain_hash bytea", "name text", "name_hash bytea", "updated_at bigint")

var renameAccounts = engine.NewBatch(`UPDATE accounts SET name = batch.name, name_hash = batch.name_hash, updated_at = batch.updated_at
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
	"tenant_id bytea", "account_id bytea", "name text", "name_hash bytea", "updated_at bigint")

// setFields sets the name and domain of a, records the change, and adds it to index.
func setFields(tx *kernel.Mutation, index *IndexUpdate, a *atrium.Account, name, domain string) {
	was, before := *a, accountFields(a)
	a.Name, a.Domain, a.UpdatedAt = name, domain, max(a.UpdatedAt, tx.At)
	tx.Record("account.update", string(a.ID), before, accountFields(a))
	index.Account(&was, a)
}

// renameRow returns the row of renameAccounts for a.
func renameRow(a *atrium.Account) engine.Args {
	return engine.Args{kernel.IDArg(a.TenantID), kernel.IDArg(a.ID), kernel.Nullable(a.Name), NameHash(a.Domain, a.Name), int64(a.UpdatedAt)}
}

// updateAccount sets the name and domain of a. The account must be locked and not merged, and no
// other account may have the domain.
func updateAccount(tx *kernel.Mutation, a *atrium.Account, name, domain string) error {
	var index IndexUpdate
	was := *a
	setFields(tx, &index, a, name, domain)
	if was.Domain == domain { // skip the index by domain
		if err := tx.PipelineExec(renameAccounts, []engine.Args{renameRow(a)}); err != nil {
			return err
		}
		return index.Write(tx)
	}
	if err := ReplaceLongDomain(tx, &was, a); err != nil {
		return err
	}
	_, err := tx.Batch(updateAccounts, []engine.Args{
		{kernel.IDArg(a.TenantID), kernel.IDArg(a.ID), DomainInRow(domain), kernel.Hash16(domain), kernel.Nullable(name), NameHash(domain, name), int64(a.UpdatedAt)},
	}, nil)
	if err != nil {
		return err
	}
	return index.Write(tx)
}

// NameHash returns the name_hash of an account, by which entries with only a name find it. It
// returns nil if the name is empty, and for the unattributed account, which is never found by
// name.
func NameHash(domain, name string) any {
	if name == "" || domain == atrium.UnattributedDomain {
		return nil
	}
	return kernel.Hash16(canonical.Name(name))
}

// NotErased is a SQL condition: the account a is not being erased.
const NotErased = "(a.survivor_id IS NULL OR a.survivor_id <> a.account_id)"

// RandomHash returns a domain_hash that matches no domain.
func RandomHash() []byte {
	hash := make([]byte, 16)
	_, _ = rand.Read(hash) // never fails: crypto/rand crashes the process instead
	return hash
}

// AccountsByID finds accounts by identifier and returns AccountColumns.
var AccountsByID = engine.NewBatch("SELECT "+AccountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
	ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+NotErased, "tenant_id bytea", "id bytea")

// AccountsByDomain finds accounts by domain hash and returns AccountColumns.
var AccountsByDomain = engine.NewBatch("SELECT "+AccountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
	ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.hash`, "tenant_id bytea", "hash bytea")
