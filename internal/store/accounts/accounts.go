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

// AccountColumns returns the columns of an account a of a tenant, which is a parameter or a column
// of a batch.
func AccountColumns(tenant string) string {
	return strings.Replace(accountRow, "a.domain", wholeDomain(tenant, "domain", "a.domain"), 1)
}

// The columns of an account a and of a prospect p in the order in which ScanAccount and
// ScanProspect read them.
const (
	accountRow      = "a.account_id, a.domain, a.name, a.created_at, a.updated_at, a.latest_activity_at" // with the beginning of a long domain
	afterAccount    = 6                                                                                  // how many these are
	ProspectColumns = `p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url,
		p.created_at, p.updated_at`
)

// ScanAccount reads AccountColumns or accountRow, which start at column 0.
func ScanAccount(r engine.Row, tenant atrium.TenantID) atrium.Account {
	return atrium.Account{
		ID: kernel.IDAt[atrium.AccountID](r, 0), TenantID: tenant, Domain: r.Text(1), Name: r.Text(2),
		CreatedAt: atrium.Time(r.Int(3)), UpdatedAt: atrium.Time(r.Int(4)), LatestActivityAt: kernel.TimeAt(r, 5),
	}
}

// ScanProspect reads ProspectColumns, which start at the given column. Its texts are
// one allocation.
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

// What is held in memory of the prospects of an account, and of what was merged into it. Above
// either limit these are read in parts.
const (
	maxHeldProspects = 200
	maxHeldBytes     = 256 << 10 // of their texts
)

// Account returns the account that an identifier leads to, which is another one where
// that was merged, and the prospects linked to it, ordered by their creation and then
// their identifier. It is NotFound if there is none, and ErrPartial if there are too
// many prospects.
func (s *Store) Account(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (atrium.Account, []atrium.Prospect, error) {
	d, err := findAccount(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return s.db.Engine.Query(ctx, sql, args, each)
	}, tenant, id)
	if err == nil && d.More {
		return d.Account, nil, atrium.ErrPartial
	}
	return d.Account, d.Prospects, kernel.Public(err)
}

// findAccount is Account with a method that reads. Between two reads that are no
// transaction, what an identifier leads to may change again, but hardly often.
func findAccount(query func(string, engine.Args, func(engine.Row) error) error, tenant atrium.TenantID, id atrium.AccountID,
) (d atrium.AccountDetail, err error) {
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), int64(maxHeldProspects) + 1}
	for range kernel.MaxTries {
		var survivor atrium.AccountID
		var bytes int
		d = atrium.AccountDetail{}
		err = engine.Find(query, accountWithProspects, args, func(r engine.Row) {
			if !r.Null(0) {
				d.Account, survivor = ScanAccount(r, tenant), kernel.IDAt[atrium.AccountID](r, afterAccount)
				return
			}
			if d.More {
				return
			}
			p := ScanProspect(r, afterAccount+1, tenant)
			if bytes += textBytes(&p); len(d.Prospects) == maxHeldProspects || bytes > maxHeldBytes {
				d.Prospects, d.More = nil, true
				return
			}
			d.Prospects = append(d.Prospects, p)
		})
		if err == nil && d.ID == "" { // it is being erased, and has links
			err = engine.ErrNoRow
		}
		if err != nil || survivor == "" {
			slices.SortFunc(d.Prospects, func(a, b atrium.Prospect) int {
				return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
			})
			return d, err
		}
		args[1] = kernel.IDArg(survivor)
	}
	return d, atrium.Unavailable(errors.New("the account is merged again and again"))
}

// One statement is one round trip to a server, and needs no transaction. It finds the account in
// one row, and each of its first prospects in another one. A join of both would have a server read
// and sort all links.
var accountWithProspects = "SELECT " + AccountColumns("$1") + `, a.survivor_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM accounts a
	WHERE a.tenant_id = $1 AND a.account_id = $2 AND ` + NotErased + `
	UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, x.* FROM (SELECT ` + ProspectColumns + ` FROM account_prospects l
		JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
		WHERE l.tenant_id = $1 AND l.account_id = $2 ORDER BY l.prospect_created_at, l.prospect_id LIMIT $3) x`

// textBytes returns the length of the texts of a prospect.
func textBytes(p *atrium.Prospect) (n int) {
	for _, text := range []*string{p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// AccountDetail is Account with what was merged into it.
func (s *Store) AccountDetail(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (d atrium.AccountDetail, err error) {
	if d, err = s.accountDetail(ctx, tenant, id); err == nil && d.Partial() {
		err = atrium.ErrPartial
	}
	return d, err
}

// accountDetail is AccountDetail, which leaves out what is not held.
func (s *Store) accountDetail(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (d atrium.AccountDetail, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		d, err = findAccountDetail(tx, tenant, id)
		return err
	})
	return d, err
}

// findAccountDetail is accountDetail in a transaction.
func findAccountDetail(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (d atrium.AccountDetail, err error) {
	if d, err = findAccount(tx.Query, tenant, id); err != nil {
		return d, err
	}
	rows, bytes, err := mergedRows(tx, tenant, d.ID)
	if d.MoreMerged = bytes > maxHeldBytes; d.MoreMerged || err != nil {
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

// RenameAccount gives the account that an identifier leads to a name and returns it
// with its linked prospects, but not with what was merged into it. The account as it
// stands is first given to check, whose error ends the call; nil stands for no check. A
// name that it has already changes nothing. It is NotFound if there is none.
func (s *Store) RenameAccount(ctx context.Context, c atrium.Change, id atrium.AccountID, name string, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	d, _, err := CheckedChange(ctx, s, c, id, check, func(tx *kernel.Mutation, p Precondition) (d atrium.AccountDetail, err error) {
		if id, err := lockAccount(tx, id); err != nil {
			return d, err
		} else if d, err = findAccount(tx.Query, c.TenantID, id); err != nil {
			return d, err
		}
		if err := p.test(tx, d); err != nil || d.Name == name {
			return d, err
		}
		tx.Changes(string(d.ID))
		return d, update(tx, &d.Account, name, d.Domain)
	})
	return d, err
}

// lockAccount returns the identifier of the account that another one leads to, which
// no other transaction changes until this one has ended. No account on the way is
// locked, so that the locks have one order.
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
	return "", ErrRegrouped
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

// update gives an account that stands for itself, and is locked, a name and a domain
// that no other one has.
func update(tx *kernel.Mutation, a *atrium.Account, name, domain string) error {
	var x Indexing
	was, before := *a, accountFields(a)
	moved := a.Domain != domain
	a.Name, a.Domain, a.UpdatedAt = name, domain, max(a.UpdatedAt, tx.At)
	tx.Record("account.update", string(a.ID), before, accountFields(a))
	tenant, account := kernel.IDArg(tx.Change.TenantID), kernel.IDArg(a.ID)
	if x.Account(&was, a); !moved { // the index by domain is not written
		if err := tx.PipelineExec(renameAccounts, []engine.Args{{tenant, account, kernel.Nullable(name), NameHash(domain, name), int64(a.UpdatedAt)}}); err != nil {
			return err
		}
		return x.Write(tx)
	}
	if err := ReplaceLongDomain(tx, &was, a); err != nil {
		return err
	}
	_, err := tx.Batch(updateAccounts, []engine.Args{
		{tenant, account, DomainInRow(domain), kernel.Hash16(domain), kernel.Nullable(name), NameHash(domain, name), int64(a.UpdatedAt)},
	}, nil)
	if err != nil {
		return err
	}
	return x.Write(tx)
}

// NameHash returns what an account of the domain is found by when an entry
// gives only the name: nothing for the unattributed account.
func NameHash(domain, name string) any {
	if name == "" || domain == atrium.UnattributedDomain {
		return nil
	}
	return kernel.Hash16(canonical.Name(name))
}

// NotErased is the condition that an account a is not being erased.
const NotErased = "(a.survivor_id IS NULL OR a.survivor_id <> a.account_id)"

// RandomHash returns a domain_hash that no domain has.
func RandomHash() []byte {
	hash := make([]byte, 16)
	_, _ = rand.Read(hash) // never fails: crypto/rand ends the process instead
	return hash
}

// AccountsByID finds accounts by their identifiers and returns AccountColumns.
var AccountsByID = engine.NewBatch("SELECT "+AccountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
	ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+NotErased, "tenant_id bytea", "id bytea")

// AccountsByDomain finds accounts by the hashes of their domains and returns AccountColumns.
var AccountsByDomain = engine.NewBatch("SELECT "+AccountColumns("batch.tenant_id")+` FROM batch JOIN accounts a
	ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.hash`, "tenant_id bytea", "hash bytea")
