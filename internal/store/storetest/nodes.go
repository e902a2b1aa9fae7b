package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"atrium"
)

// nodes are the guarantees that hold when several nodes use one database at the
// same time.
var nodes = []guarantee{
	{"a key that is used on several nodes at once is one entry, acknowledged to all", oneEntryOnAllNodes},
	{"a domain that is new on several nodes at once is one account", oneAccountOnAllNodes},
	{"entries that several nodes append at once are all recorded", allNodesRecord},
	{"renames and entries at once lose nothing", renamesAndEntriesTogether},
	{"a secret is made once however many ask for it first", oneSecret},
}

const writers = 4 // of each of two nodes

// both runs f on two nodes at once, several times on each.
func (e *env) both(f func(e *env, i int)) {
	two := []*env{e, e.node()}
	parallel(2*writers, func(i int) { f(two[i%2], i) })
}

func oneEntryOnAllNodes(t *testing.T, e *env) {
	const keys = 5
	receipts := make([][]atrium.Receipt, 2*writers)
	e.both(func(e *env, i int) {
		var drafts []*atrium.Draft
		for k := range keys {
			drafts = append(drafts, e.draft(t, byDomain("acme.example"), key(fmt.Sprint("k", (k+i)%keys))))
		}
		receipts[i] = recorded(t, e.append(t, drafts...))
	})
	for k := range keys {
		bound := 0
		var entry atrium.EntryID
		for i := range receipts {
			r := receipts[i][((k-i)%keys+keys)%keys]
			if !r.Replayed {
				bound++
			}
			if entry == "" {
				entry = r.EntryID
			}
			if r.EntryID != entry {
				t.Errorf("key %d has receipts of %s and %s", k, entry, r.EntryID)
			}
		}
		if bound != 1 {
			t.Errorf("key %d was bound %d times", k, bound)
		}
	}
	if n := len(e.entries(t)); n != keys {
		t.Errorf("there are %d entries, want %d", n, keys)
	}
}

func oneAccountOnAllNodes(t *testing.T, e *env) {
	e.both(func(e *env, i int) {
		for d := range 5 {
			e.record(t, byDomain(fmt.Sprintf("d%d.example", (d+i)%5)))
		}
		e.record(t, atrium.Claim{})
	})
	if n := len(e.accounts(t)); n != 6 {
		t.Errorf("there are %d accounts, want 6", n)
	}
}

func allNodesRecord(t *testing.T, e *env) {
	const batches, size = 4, 5
	e.both(func(e *env, i int) {
		for range batches {
			var drafts []*atrium.Draft
			for d := range size {
				drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("d%d.example", (d+i)%size))))
			}
			recorded(t, e.append(t, drafts...))
		}
	})
	if n, want := len(e.entries(t)), 2*writers*batches*size; n != want {
		t.Errorf("there are %d entries, want %d", n, want)
	}
}

func renamesAndEntriesTogether(t *testing.T, e *env) {
	id := e.record(t, byDomain("acme.example")).AccountID
	e.clock.step(1e9)
	e.both(func(e *env, i int) {
		e.rename(t, id, fmt.Sprint("Name ", i))
		e.record(t, byID(id))
	})
	a := e.account(t, id)
	if a.Name == "" || *a.LatestActivityAt != e.clock.shows() || a.UpdatedAt != e.clock.shows() {
		t.Errorf("the account is %+v", a)
	}
	if n := len(e.entries(t)); n != 2*writers+1 {
		t.Errorf("there are %d entries, want %d", n, 2*writers+1)
	}
}

func oneSecret(t *testing.T, e *env) {
	secrets := make([][]byte, 2*writers)
	e.both(func(e *env, i int) {
		secret, err := e.Secret(t.Context(), "together")
		if err != nil {
			t.Errorf("read a secret: %v", err)
		}
		secrets[i] = secret
	})
	for _, s := range secrets {
		if len(s) != 32 || !bytes.Equal(s, secrets[0]) {
			t.Errorf("secrets %x and %x under one name", s, secrets[0])
		}
	}
	if again, err := e.Secret(t.Context(), "together"); err != nil || !bytes.Equal(again, secrets[0]) {
		t.Errorf("the secret is %x, %v later, was %x", again, err, secrets[0])
	}
	if other, err := e.Secret(t.Context(), "other"); err != nil || bytes.Equal(other, secrets[0]) {
		t.Errorf("another name has %x, %v", other, err)
	}
}
