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

// This file keeps the words by which accounts and prospects are found. The terms of a
// thing follow from its fields alone, so that those that it had can be told from
// what it was. They are written in the transaction that changes the fields, while it
// holds the row of the thing. An account that was merged keeps its own.

// The kinds of terms, by what they begin with.
const (
	accountWord    = "aw:" // a word of an account's domain or name
	accountNamed   = "an:" // the whole name of an account, for their order
	accountUnnamed = "ao:" // the domain of one that has no name: these come behind the others
	prospectWord   = "pw:" // a word of a prospect's name, e-mail address or domain
)

// The bounds of what one thing is found by.
const (
	maxTerms = 32  // how many terms it has
	maxPart  = 10  // how many of them come from one field, but for the name
	maxTerm  = 100 // bytes of a term behind its kind
)

// terms are those of one thing.
type terms []string

func (t *terms) add(kind, text string) {
	term := kind + canonical.Cut(text, maxTerm)
	if len(*t) < maxTerms && !slices.Contains(*t, term) {
		*t = append(*t, term)
	}
}

// words adds the first words of a text, up to as many terms in all.
func (t *terms) words(kind, text string, most int) {
	for word := range canonical.Words(text) {
		if len(*t) >= most {
			return
		}
		t.add(kind, word)
	}
}

// sorted returns the terms in the order of the index.
func (t terms) sorted() terms {
	slices.Sort(t)
	return t
}

// accountTerms returns the terms of an account.
func accountTerms(a *atrium.Account) terms {
	var t terms
	if a.Name == "" {
		t.add(accountUnnamed, a.Domain)
	} else {
		t.add(accountNamed, canonical.Name(a.Name))
	}
	t.words(accountWord, a.Domain, maxPart)
	if readable := canonical.Readable(a.Domain); readable != a.Domain {
		t.words(accountWord, readable, 2*maxPart)
	}
	t.words(accountWord, a.Name, maxTerms)
	return t.sorted()
}

// prospectTerms returns the terms of a prospect.
func prospectTerms(p *atrium.Prospect) terms {
	var t terms
	for i, text := range []*string{p.Email, p.Domain} {
		if text != nil {
			t.words(prospectWord, *text, (i+1)*maxPart)
		}
	}
	if p.Name != nil {
		t.words(prospectWord, *p.Name, maxTerms)
	}
	return t.sorted()
}

// beginning returns the first of the terms of a kind that begins with a word, or "".
func (t terms) beginning(kind, word string) string {
	sought := kind + canonical.Cut(word, maxTerm)
	if i, _ := slices.BinarySearch(t, sought); i < len(t) && strings.HasPrefix(t[i], sought) {
		return t[i]
	}
	return ""
}

// beginAll reports whether each word begins one of the terms of a kind.
func (t terms) beginAll(kind string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return t.beginning(kind, word) == "" })
}

// behind returns a text that comes right after all that begin with a prefix. UTF-8 has
// the order of the characters.
func behind(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		if prefix = prefix[:len(prefix)-size]; last < utf8.MaxRune {
			return prefix + string(last+1) // for a surrogate U+FFFD, which comes later still
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

// An Indexing collects what a transaction does to the index of terms.
type Indexing struct{ gone, come []engine.Args }

// Account notes what an account was, nil if it is new, and is, nil if it is no more.
func (x *Indexing) Account(before, after *atrium.Account) {
	var was, is terms
	if before != nil {
		was = accountTerms(before)
	}
	if after != nil {
		is = accountTerms(after)
	}
	a := cmp.Or(after, before)
	x.note(kernel.IDArg(a.TenantID), kernel.IDArg(a.ID), was, is)
}

// Prospect notes what a prospect was, nil if it is new, and is, nil if it is no more.
func (x *Indexing) Prospect(before, after *atrium.Prospect) {
	var was, is terms
	if before != nil {
		was = prospectTerms(before)
	}
	if after != nil {
		is = prospectTerms(after)
	}
	p := cmp.Or(after, before)
	x.note(kernel.IDArg(p.TenantID), kernel.IDArg(p.ID), was, is)
}

// note stores all that the subject is found by, also what should be there: a binary
// that knew nothing of terms may have made it.
func (x *Indexing) note(tenant, subject any, was, is terms) {
	if slices.Equal(was, is) {
		return
	}
	for _, term := range was {
		if !slices.Contains(is, term) {
			x.gone = append(x.gone, engine.Args{tenant, term, subject})
		}
	}
	for _, term := range is {
		x.come = append(x.come, engine.Args{tenant, term, subject})
	}
}

// write changes the index. The transaction holds the rows of all subjects.
func (x *Indexing) Write(tx engine.Tx) error {
	if len(x.gone) > 0 {
		if err := tx.PipelineExec(deleteTerms, x.gone); err != nil {
			return err
		}
	}
	if len(x.come) > 0 {
		return tx.PipelineExec(insertTerms, x.come)
	}
	return nil
}

// termsAtOnce is how many things IndexAll reads at once.
const termsAtOnce = 500

// IndexAll makes the terms of everything that was stored before there were any. It
// holds a few hundred things in memory, however many there are.
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
			func(x *Indexing, r engine.Row) {
				x.Account(nil, &atrium.Account{ID: kernel.IDAt[atrium.AccountID](r, 0), TenantID: tenant, Domain: r.Text(1), Name: r.Text(2)})
			}); err != nil {
			return err
		}
		if err := indexEach(tx, tenant, "SELECT "+ProspectColumns+" FROM prospects p WHERE tenant_id = $1 AND prospect_id > $2 ORDER BY prospect_id LIMIT $3",
			func(x *Indexing, r engine.Row) {
				p := ScanProspect(r, 0, tenant)
				x.Prospect(nil, &p)
			}); err != nil {
			return err
		}
	}
}

// indexEach makes the terms of what a statement finds behind an identifier.
func indexEach(tx engine.Tx, tenant atrium.TenantID, sql string, note func(*Indexing, engine.Row)) error {
	for after, more := []byte{}, true; more; {
		var x Indexing
		n := 0
		if err := tx.Query(sql, engine.Args{kernel.IDArg(tenant), after, int64(termsAtOnce)}, func(r engine.Row) error {
			n++
			after = r.Bytes(0)
			note(&x, r)
			return nil
		}); err != nil {
			return err
		}
		if err := x.Write(tx); err != nil {
			return err
		}
		more = n == termsAtOnce
	}
	return nil
}
