package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"atrium"
)

// nodes are the guarantees for several nodes that use one database concurrently.
var nodes = []guarantee{
	{concurrent + "a key used on several nodes at once is one entry, acknowledged by all", oneEntryOnAllNodes},
	{concurrent + "a new domain used on several nodes at once is one account", oneAccountOnAllNodes},
	{concurrent + "entries of several nodes are all recorded", allNodesRecord},
	{concurrent + "renames and entries lose nothing", renamesAndEntriesTogether},
	{concurrent + "first requests of a secret get the same secret", oneSecret},
}

const writers = 4 // of each of two nodes

// onTwoNodes runs f on two nodes at once, several times on each.
func (e *env) onTwoNodes(t *testing.T, f func(e *env, i int)) {
	two := []*env{e, e.node()}
	parallel(t, 2*writers, func(i int) { f(two[i%2], i) })
}

func oneEntryOnAllNodes(t *testing.T, e *env) {
	const keys = 5
	all := make([][]atrium.Receipt, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		var drafts []*atrium.Draft
		for k := range keys {
			drafts = append(drafts, e.draft(t, byDomain("acme.example"), key(fmt.Sprint("k", (k+i)%keys))))
		}
		all[i] = receipts(t, e.append(t, drafts...))
	})
	for k := range keys {
		bound := 0
		var entry atrium.EntryID
		for i := range all {
			r := all[i][((k-i)%keys+keys)%keys]
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
	e.onTwoNodes(t, func(e *env, i int) {
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
	e.onTwoNodes(t, func(e *env, i int) {
		for range batches {
			var drafts []*atrium.Draft
			for d := range size {
				drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("d%d.example", (d+i)%size))))
			}
			receipts(t, e.append(t, drafts...))
		}
	})
	if n, want := len(e.entries(t)), 2*writers*batches*size; n != want {
		t.Errorf("there are %d entries, want %d", n, want)
	}
}

func renamesAndEntriesTogether(t *testing.T, e *env) {
	id := e.record(t, byDomain("acme.example")).AccountID
	e.clock.step(1e9)
	e.onTwoNodes(t, func(e *env, i int) {
		e.rename(t, id, fmt.Sprint("Name ", i))
		e.record(t, byID(id))
	})
	a := e.account(t, id)
	if a.Name == "" || *a.LatestActivityAt != e.clock.instant() || a.UpdatedAt != e.clock.instant() {
		t.Errorf("the account is %+v", a)
	}
	if n := len(e.entries(t)); n != 2*writers+1 {
		t.Errorf("there are %d entries, want %d", n, 2*writers+1)
	}
}

func oneSecret(t *testing.T, e *env) {
	secrets := make([][]byte, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
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
