package storetest

import (
	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// Helpers that append entries and check the outcomes.

// A draftOption changes a submission before it becomes a draft.
type draftOption func(*atrium.Submission)

func key(k string) draftOption { return func(s *atrium.Submission) { s.IdempotencyKey = k } }

func payload(json string) draftOption { return func(s *atrium.Submission) { s.Payload = []byte(json) } }

// draft makes a draft of the tenant, like the external API.
func (e *env) draft(t tb, claim atrium.Claim, changes ...draftOption) *atrium.Draft {
	t.Helper()
	s := atrium.Submission{Source: "crm", Type: atrium.DefaultType, Payload: []byte(`{}`), Claim: claim}
	for _, change := range changes {
		change(&s)
	}
	d, err := canonical.Draft(e.tenant, s)
	if err != nil {
		t.Fatalf("make a draft: %v", err)
	}
	d.ID = atrium.NewID[atrium.EntryID]()
	return d
}

// keyDraft makes a draft that its key identifies, like a receiver.
func (e *env) keyDraft(claim atrium.Claim, k string, changes ...draftOption) *atrium.Draft {
	s := atrium.Submission{Source: "github", Type: atrium.DefaultType, Payload: []byte(`{}`), Claim: claim, IdempotencyKey: k}
	for _, change := range changes {
		change(&s)
	}
	d := canonical.KeyDraft(e.tenant, s)
	d.ID = atrium.NewID[atrium.EntryID]()
	return d
}

// append appends drafts in one transaction.
func (e *env) append(t tb, drafts ...*atrium.Draft) []atrium.Outcome {
	t.Helper()
	outcomes, err := e.Append(t.Context(), drafts)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	if len(outcomes) != len(drafts) {
		t.Fatalf("append: %d outcomes for %d drafts", len(outcomes), len(drafts))
	}
	return outcomes
}

// record appends one draft and returns its receipt.
func (e *env) record(t tb, claim atrium.Claim, changes ...draftOption) atrium.Receipt {
	t.Helper()
	return receipts(t, e.append(t, e.draft(t, claim, changes...)))[0]
}

// receipts returns the receipts of outcomes without errors.
func receipts(t tb, outcomes []atrium.Outcome) []atrium.Receipt {
	t.Helper()
	receipts := make([]atrium.Receipt, len(outcomes))
	for i, o := range outcomes {
		if o.Err != nil {
			t.Fatalf("draft %d: %v", i, o.Err)
		}
		receipts[i] = o.Receipt
	}
	return receipts
}

// wantCode fails the test unless err has the code.
func wantCode(t tb, err error, code atrium.Code) {
	t.Helper()
	if err == nil || atrium.CodeOf(err) != code {
		t.Errorf("error %v, want one of code %s", err, code)
	}
}

// account returns an account that must exist.
func (e *env) account(t tb, id atrium.AccountID) atrium.Account {
	t.Helper()
	a, _, err := e.Account(t.Context(), e.tenant, id)
	if err != nil {
		t.Fatalf("read an account: %v", err)
	}
	if a.ID != id || a.TenantID != e.tenant {
		t.Errorf("asked for %s of %s, got %s of %s", id, e.tenant, a.ID, a.TenantID)
	}
	return a
}

// records returns all records of the tenant in the order of an export.
func (e *env) records(t tb) (all []store.Record) {
	t.Helper()
	if err := e.Export(t.Context(), e.tenant, func(r store.Record) error {
		all = append(all, r)
		return nil
	}); err != nil {
		t.Fatalf("export: %v", err)
	}
	return all
}

// of returns the records of one kind.
func of[R store.Record](records []store.Record) (some []R) {
	for _, r := range records {
		if r, ok := r.(R); ok {
			some = append(some, r)
		}
	}
	return some
}

func (e *env) entries(t tb) []*atrium.Entry {
	t.Helper()
	return of[*atrium.Entry](e.records(t))
}

func (e *env) accounts(t tb) []*atrium.Account {
	t.Helper()
	return of[*atrium.Account](e.records(t))
}

// rename renames an account.
func (e *env) rename(t tb, id atrium.AccountID, name string) atrium.Account {
	t.Helper()
	d, err := e.RenameAccount(t.Context(), e.change(), id, name, nil)
	if err != nil {
		t.Fatalf("rename: %v", err)
	}
	return d.Account
}

// byDomain, byName and byID claim an account by one member.
func byDomain(domain string) atrium.Claim { return atrium.Claim{Domain: domain} }

func byName(name string) atrium.Claim { return atrium.Claim{Name: name} }

func byID(id atrium.AccountID) atrium.Claim { return atrium.Claim{AccountID: id} }
