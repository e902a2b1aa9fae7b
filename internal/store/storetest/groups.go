package storetest

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
)

// Checks of the tables of merged accounts that must hold after any operation.

// A groupedAccount is a row of an account.
type groupedAccount struct {
	id, into, survivor atrium.AccountID
	domain, name       string
	found              bool  // by its name
	latest, minute     int64 // in the row
}

// noActivity is the active_minute of an account without activity.
const noActivity = -2_000_000_000

// wantSoundGroups fails the test unless all derived data of merged accounts matches their entries
// and links.
func (e *env) wantSoundGroups(t tb) {
	t.Helper()
	e.sweepActivity(t)
	accounts := map[atrium.AccountID]groupedAccount{}
	newest := map[atrium.AccountID]int64{}           // by survivor
	own := map[atrium.AccountID]map[string]bool{}    // links, by account
	copies := map[atrium.AccountID]map[string]bool{} // links, by survivor
	entries := map[atrium.AccountID]int64{}          // the newest, by account
	link := func(all map[atrium.AccountID]map[string]bool, id atrium.AccountID, prospect []byte) {
		if all[id] == nil {
			all[id] = map[string]bool{}
		}
		all[id][string(prospect)] = true
	}
	tenant := engine.Args{storedID(e.tenant)}
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		if err := tx.Query(`SELECT account_id, merged_into, survivor_id, domain, name, name_hash, latest_activity_at, active_minute
			FROM accounts WHERE tenant_id = $1`, tenant, func(r engine.Row) error {
			a := groupedAccount{
				storedAccount(r, 0), storedAccount(r, 1), storedAccount(r, 2), r.Text(3), r.Text(4), !r.Null(5), noActivity * 60_000_000, r.Int(7),
			}
			if !r.Null(6) {
				a.latest = r.Int(6)
			}
			accounts[a.id] = a
			return nil
		}); err != nil {
			return err
		}
		if err := tx.Query("SELECT account_id, created_at FROM entries WHERE tenant_id = $1", tenant, func(r engine.Row) error {
			id := storedAccount(r, 0)
			if at, ok := entries[id]; !ok || r.Int(1) > at {
				entries[id] = r.Int(1)
			}
			return nil
		}); err != nil {
			return err
		}
		return tx.Query("SELECT account_id, prospect_id, via FROM account_prospects WHERE tenant_id = $1", tenant, func(r engine.Row) error {
			if r.Null(2) {
				link(own, storedAccount(r, 0), r.Bytes(1))
			} else {
				link(copies, storedAccount(r, 0), r.Bytes(1))
			}
			return nil
		})
	}); err != nil {
		t.Fatalf("read the groups: %v", err)
	}
	shown := map[atrium.AccountID]map[string]bool{}
	for id, a := range accounts {
		root := a
		for root.into != "" {
			root = accounts[root.into]
		}
		if root.id == "" || a.into == "" && a.survivor != "" || a.into != "" && a.survivor != root.id {
			t.Errorf("%s, merged into %q, has the survivor %q, stored as %q", a.domain, a.into, root.id, a.survivor)
		}
		if at, ok := entries[id]; ok {
			if before, ok := newest[root.id]; !ok || at > before {
				newest[root.id] = at
			}
		}
		if want := a.into == "" && a.name != "" && a.domain != atrium.UnattributedDomain; a.found != want {
			t.Errorf("%s, named %q and merged into %q, is found by its name: %v", a.domain, a.name, a.into, a.found)
		}
		if a.into != "" && len(copies[id]) > 0 {
			t.Errorf("%s was merged and has copies of links", a.domain)
		}
		for prospect := range own[id] {
			link(shown, root.id, []byte(prospect))
		}
	}
	for id, a := range accounts {
		at, ok := newest[id]
		if own, ok := entries[id]; ok {
			a.latest = max(a.latest, own)
		}
		if a.into == "" && (ok && a.latest != at || a.latest < noActivity*60_000_000 || a.minute != a.latest/60_000_000) {
			t.Errorf("%s was active at %d, in minute %d; its newest entry is of %d", a.domain, a.latest, a.minute, at)
		}
		for prospect := range shown[id] {
			if own[id][prospect] == copies[id][prospect] {
				t.Errorf("%s has the link to a prospect %v and a copy of it %v", a.domain, own[id][prospect], copies[id][prospect])
			}
		}
		if len(copies[id])+len(own[id]) != len(shown[id]) && a.into == "" {
			t.Errorf("%s shows %d prospects, want %d", a.domain, len(copies[id])+len(own[id]), len(shown[id]))
		}
	}
	for id := range entries {
		if accounts[id].id == "" && !e.erased(t, id) {
			t.Errorf("entries of the missing account %s are left", id)
		}
	}
}

// erased reports whether the erasure of an account is not complete.
func (e *env) erased(t tb, id atrium.AccountID) (noted bool) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT requested_at FROM erasures WHERE tenant_id = $1 AND account_id = $2",
		engine.Args{storedID(e.tenant), storedID(id)}, func(engine.Row) error {
			noted = true
			return nil
		}); err != nil {
		t.Fatalf("read the erasures: %v", err)
	}
	return noted
}

// entriesOf returns how many entries are stored under an account.
func (e *env) entriesOf(t tb, id atrium.AccountID) (n int) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT entry_id FROM entries WHERE tenant_id = $1 AND account_id = $2",
		engine.Args{storedID(e.tenant), storedID(id)}, func(engine.Row) error {
			n++
			return nil
		}); err != nil {
		t.Fatalf("read entries: %v", err)
	}
	return n
}

// auditLines returns the audited actions on a subject, each followed by its detail.
func (e *env) auditLines(t tb, subject string) (acts []string) {
	t.Helper()
	if err := e.db.Query(t.Context(), "SELECT action, detail FROM audit WHERE tenant_id = $1 AND subject = $2 ORDER BY number",
		engine.Args{storedID(e.tenant), subject}, func(r engine.Row) error {
			acts = append(acts, r.Text(0)+" "+string(r.Bytes(1)))
			return nil
		}); err != nil {
		t.Fatalf("read the audit log: %v", err)
	}
	return acts
}

// detail returns the account that an identifier leads to.
func (e *env) detail(t tb, id atrium.AccountID) atrium.AccountDetail {
	t.Helper()
	d, err := e.AccountDetail(t.Context(), e.tenant, id)
	if err != nil {
		t.Fatalf("read an account: %v", err)
	}
	return d
}

func (e *env) merge(t tb, id, into atrium.AccountID) atrium.AccountDetail {
	t.Helper()
	d, err := e.MergeAccounts(t.Context(), e.change(), id, into, accept)
	if err != nil {
		t.Fatalf("merge: %v", err)
	}
	return d
}

func (e *env) split(t tb, id, account atrium.AccountID) atrium.AccountDetail {
	t.Helper()
	d, err := e.SplitAccount(t.Context(), e.change(), id, account, accept)
	if err != nil {
		t.Fatalf("split: %v", err)
	}
	return d
}

func (e *env) changeDomain(t tb, id atrium.AccountID, domain string) atrium.AccountDetail {
	t.Helper()
	d, err := e.UpdateAccount(t.Context(), e.change(), id, atrium.AccountUpdate{Domain: domain}, accept)
	if err != nil {
		t.Fatalf("change the domain: %v", err)
	}
	return d
}

// wantMerged checks the accounts that were merged into an account.
func wantMerged(t tb, d atrium.AccountDetail, want ...atrium.MergedAccount) {
	t.Helper()
	if !slices.Equal(d.Merged, want) {
		t.Errorf("merged into %s are\n%+v\nwant\n%+v", d.ID, d.Merged, want)
	}
}

// storedID and storedAccount convert identifiers to and from their stored form.

func storedID[T atrium.Identifier](id T) []byte {
	digits := string(id[len(id.Prefix()):])
	var b []byte
	for i, part := range []string{digits[:2], digits[2:14], digits[14:]} {
		n, _ := strconv.ParseUint(part, 36, 64)
		if i == 0 {
			b = binary.BigEndian.AppendUint16(b, uint16(n))
		} else {
			b = binary.BigEndian.AppendUint64(b, n)
		}
	}
	return b
}

func storedAccount(r engine.Row, column int) atrium.AccountID {
	b := r.Bytes(column)
	if b == nil {
		return ""
	}
	digits := func(n uint64, width int) string {
		text := strconv.FormatUint(n, 36)
		return strings.Repeat("0", width-len(text)) + text
	}
	return as[atrium.AccountID](digits(uint64(binary.BigEndian.Uint16(b)), 2) +
		digits(binary.BigEndian.Uint64(b[2:]), 12) + digits(binary.BigEndian.Uint64(b[10:]), 12))
}
