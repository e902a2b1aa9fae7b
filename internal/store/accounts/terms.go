package accounts

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file maintains the search terms of accounts and prospects. Terms depend only on a
// resource's fields, so its previous terms can be computed from its previous fields. Terms are
// written in the transaction that changes the fields and locks the row. A merged account keeps its
// terms.

// The kinds of terms, as prefixes.
const (
	accountWord    = "aw:" // a word of an account's domain or name
	accountNamed   = "an:" // an account's whole name, for sorting
	accountUnnamed = "ao:" // the domain of an account without a name; sorts after all names
	prospectWord   = "pw:" // a word of a prospect's name, email address or domain
)

// Limits of the terms of a resource.
const (
	maxTerms      = canonical.MaxWords
	maxFieldTerms = canonical.MaxFieldWords
	maxTermBytes  = 100 // bytes of a term without its kind
)

// terms are the search terms of a resource.
type terms []string

func (t *terms) add(kind, text string) {
	term := kind + canonical.Truncate(text, maxTermBytes)
	if len(*t) < maxTerms && !slices.Contains(*t, term) {
		*t = append(*t, term)
	}
}

// words adds the first words of a text, until there are limit terms in total.
func (t *terms) words(kind, text string, limit int) {
	for word := range canonical.Words(text) {
		if len(*t) >= limit {
			return
		}
		t.add(kind, word)
	}
}

// sorted sorts the terms in index order.
func (t terms) sorted() terms {
	slices.Sort(t)
	return t
}

// accountTerms returns the sorted terms of an account.
func accountTerms(a *atrium.Account) terms {
	var t terms
	if a.Name == "" {
		t.add(accountUnnamed, a.Domain)
	} else {
		t.add(accountNamed, canonical.Name(a.Name))
	}
	t.words(accountWord, a.Domain, maxFieldTerms)
	if readable := canonical.ToUnicode(a.Domain); readable != a.Domain {
		t.words(accountWord, readable, 2*maxFieldTerms)
	}
	t.words(accountWord, a.Name, maxTerms)
	return t.sorted()
}

// prospectTerms returns the sorted terms of a prospect.
func prospectTerms(p *atrium.Prospect) terms {
	var t terms
	for i, text := range []*string{p.Email, p.Domain} {
		if text != nil {
			t.words(prospectWord, *text, (i+1)*maxFieldTerms)
		}
	}
	if p.Name != nil {
		t.words(prospectWord, *p.Name, maxTerms)
	}
	return t.sorted()
}

// CountAccountTerms returns the number of rows of an account in the search index.
func CountAccountTerms(a *atrium.Account) int { return len(accountTerms(a)) }

// CountProspectTerms returns the number of rows of a prospect in the search index.
func CountProspectTerms(p *atrium.Prospect) int { return len(prospectTerms(p)) }

// firstWithPrefix returns the first term of a kind that begins with word, or "".
func (t terms) firstWithPrefix(kind, word string) string {
	prefix := kind + canonical.Truncate(word, maxTermBytes)
	if i, _ := slices.BinarySearch(t, prefix); i < len(t) && strings.HasPrefix(t[i], prefix) {
		return t[i]
	}
	return ""
}

// matchAll reports whether every word is a prefix of a term of the kind.
func (t terms) matchAll(kind string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return t.firstWithPrefix(kind, word) == "" })
}

// prefixEnd returns the smallest text that is greater than all texts with the prefix. UTF-8 sorts
// in code point order.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		if prefix = prefix[:len(prefix)-size]; last < utf8.MaxRune {
			return prefix + string(last+1) // U+FFFD for a surrogate, which is also greater
		}
	}
	return ""
}

var (
	insertTerms = engine.NewBatch(`INSERT INTO search_terms (tenant_id, term, subject_id)
		SELECT batch.tenant_id, term, subject_id FROM batch WHERE true ON CONFLICT DO NOTHING`,
		"tenant_id bytea", "term text", "subject_id bytea")
	deleteTerms = engine.NewBatch(`DELETE FROM search_terms USING batch
		WHERE search_terms.tenant_id = batch.tenant_id AND search_terms.term = batch.term AND search_terms.subject_id = batch.subject_id`,
		"tenant_id bytea", "term text", "subject_id bytea")
)

// An IndexUpdate collects a transaction's changes to the search index.
type IndexUpdate struct{ deletes, inserts []engine.Args }

// Account adds a change of an account. before is nil if it is new; after is nil if it is deleted.
func (u *IndexUpdate) Account(before, after *atrium.Account) {
	var oldTerms, newTerms terms
	if before != nil {
		oldTerms = accountTerms(before)
	}
	if after != nil {
		newTerms = accountTerms(after)
	}
	a := cmp.Or(after, before)
	u.note(kernel.IDArg(a.TenantID), kernel.IDArg(a.ID), oldTerms, newTerms)
}

// Prospect adds a change of a prospect. before is nil if it is new; after is nil if it is deleted.
func (u *IndexUpdate) Prospect(before, after *atrium.Prospect) {
	var oldTerms, newTerms terms
	if before != nil {
		oldTerms = prospectTerms(before)
	}
	if after != nil {
		newTerms = prospectTerms(after)
	}
	p := cmp.Or(after, before)
	u.note(kernel.IDArg(p.TenantID), kernel.IDArg(p.ID), oldTerms, newTerms)
}

// note adds a change of terms. It inserts unchanged terms too, because a version without search
// terms may have written the resource.
func (u *IndexUpdate) note(tenant, subject any, oldTerms, newTerms terms) {
	if slices.Equal(oldTerms, newTerms) {
		return
	}
	for _, term := range oldTerms {
		if !slices.Contains(newTerms, term) {
			u.deletes = append(u.deletes, engine.Args{tenant, term, subject})
		}
	}
	for _, term := range newTerms {
		u.inserts = append(u.inserts, engine.Args{tenant, term, subject})
	}
}

// Write writes the changes. The transaction must have locked the rows of all changed resources.
func (u *IndexUpdate) Write(tx engine.Tx) error {
	if len(u.deletes) > 0 {
		if err := tx.PipelineExec(deleteTerms, u.deletes); err != nil {
			return err
		}
	}
	if len(u.inserts) > 0 {
		return tx.PipelineExec(insertTerms, u.inserts)
	}
	return nil
}

// indexBatch is how many resources IndexAll reads at a time.
const indexBatch = 500

// IndexAll creates the terms of all resources that were stored before terms were introduced. It
// uses bounded memory.
func IndexAll(tx engine.Tx) error {
	for last := []byte{}; ; {
		var tenant atrium.TenantID
		if err := tx.Query("SELECT tenant_id FROM tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1", engine.Args{last}, func(r engine.Row) error {
			tenant, last = kernel.IDAt[atrium.TenantID](r, 0), r.Bytes(0)
			return nil
		}); err != nil || tenant == "" {
			return err
		}
		if err := indexEach(tx, tenant, "SELECT a.account_id, a.domain, a.name FROM accounts a WHERE tenant_id = $1 AND account_id > $2 ORDER BY account_id LIMIT $3",
			func(index *IndexUpdate, r engine.Row) {
				index.Account(nil, &atrium.Account{ID: kernel.IDAt[atrium.AccountID](r, 0), TenantID: tenant, Domain: r.Text(1), Name: r.Text(2)})
			}); err != nil {
			return err
		}
		if err := indexEach(tx, tenant, "SELECT "+ProspectColumns+" FROM prospects p WHERE tenant_id = $1 AND prospect_id > $2 ORDER BY prospect_id LIMIT $3",
			func(index *IndexUpdate, r engine.Row) {
				p := ScanProspect(r, 0, tenant)
				index.Prospect(nil, &p)
			}); err != nil {
			return err
		}
	}
}

// indexEach creates the terms of the resources that a query returns, in batches after an
// identifier.
func indexEach(tx engine.Tx, tenant atrium.TenantID, sql string, note func(*IndexUpdate, engine.Row)) error {
	for after, more := []byte{}, true; more; {
		var index IndexUpdate
		n := 0
		if err := tx.Query(sql, engine.Args{kernel.IDArg(tenant), after, int64(indexBatch)}, func(r engine.Row) error {
			n++
			after = r.Bytes(0)
			note(&index, r)
			return nil
		}); err != nil {
			return err
		}
		if err := index.Write(tx); err != nil {
			return err
		}
		more = n == indexBatch
	}
	return nil
}
