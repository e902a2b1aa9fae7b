package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/counts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/tombstones"
)

// This file deletes entries together with their move history, and stores their tombstones.

// erasedColumns are the columns of an entry e that scanErased reads.
var erasedColumns = "e.entry_id, e.move_id, octet_length(e.payload) + " + kernel.OctetLength("e.claimed_domain") +
	", e.account_id, e.acknowledged_account_id, e.created_at, e.source, e.type, e.key_match, e.fingerprint"

// An erasedEntry is an entry to delete.
type erasedEntry struct {
	tombstones.Erased
	storedIn atrium.AccountID
	lastMove atrium.MoveID // "" for none
	bytes    int           // approximately, of its row
}

// scanErased reads erasedColumns, starting at column 0.
func scanErased(r engine.Row) (e erasedEntry) {
	e.EntryID, e.lastMove, e.bytes = kernel.IDAt[atrium.EntryID](r, 0), kernel.IDAt[atrium.MoveID](r, 1), int(r.Int(2))
	e.storedIn = kernel.IDAt[atrium.AccountID](r, 3)
	e.AccountID = cmp.Or(kernel.IDAt[atrium.AccountID](r, 4), e.storedIn)
	e.CreatedAt, e.Source, e.Type, e.KeyMatch, e.Fingerprint = atrium.Time(r.Int(5)), r.Text(6), r.Text(7), r.Bytes(8), r.Bytes(9)
	return e
}

// eraseEntryBatch deletes a batch of entries of an erased account together with their move
// history. It returns how many rows it deleted, and whether entries remain.
func (s *Store) eraseEntryBatch(ctx context.Context, c atrium.Change, account atrium.AccountID) (deleted int, more bool, err error) {
	tenant := c.TenantID
	const nextEntries = "FROM entries e WHERE tenant_id = $1 AND account_id = $2 ORDER BY created_at, entry_id LIMIT $3"
	err = kernel.WriteLarge(ctx, s.db, c, func(tx engine.Tx) error {
		if err := kernel.RequireTenantIn(tx, tenant); err != nil { // tombstones are added
			return err
		}
		var found []erasedEntry
		bytes := 0
		args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(eraseBatchEntries)}
		if err := tx.Lock("SELECT "+erasedColumns+" "+nextEntries, args, func(r engine.Row) error {
			e := scanErased(r)
			if bytes += e.bytes; bytes > eraseBatchBytes && len(found) > 0 {
				return kernel.ErrPageFull
			}
			found = append(found, e)
			return nil
		}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return fmt.Errorf("find erased entries: %w", err)
		}
		n, historyRows, err := deleteEntries(tx, tenant, atrium.At(s.db.Now()), found, &history{rows: eraseBatchRows})
		if err != nil {
			return err
		}
		deleted, more = n+historyRows, false
		return tx.Query("SELECT entry_id "+nextEntries, engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(1)}, func(engine.Row) error {
			more = true
			return nil
		})
	})
	return deleted, more, err
}

var deleteEntryRows = engine.NewBatch(`DELETE FROM entries USING batch
	WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea")

// A history limits and collects what a transaction deletes of the move history of entries.
type history struct {
	rows  int                    // how many more it may delete
	rules map[atrium.MoveID]bool // the moves in the deleted rows, whose rules are deleted too; nil if they are not
	bytes int                    // of these rules
}

// add counts a row of a move. It returns false if the transaction may not delete the row.
func (h *history) add(tx engine.Tx, tenant atrium.TenantID, move atrium.MoveID) (fits bool, err error) {
	if h.rows == 0 {
		return false, nil
	}
	if h.rules != nil && !h.rules[move] {
		size := 0
		if err := tx.Query("SELECT COALESCE(octet_length(rule), 0) FROM moves WHERE tenant_id = $1 AND move_id = $2",
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(move)}, func(r engine.Row) error {
				size = int(r.Int(0))
				return nil
			}); err != nil {
			return false, fmt.Errorf("find the size of a rule: %w", err)
		}
		if h.bytes > 0 && h.bytes+size > eraseBatchBytes {
			return false, nil
		}
		h.rules[move] = true
		h.bytes += size
	}
	h.rows--
	return true, nil
}

// deleteEntries deletes locked entries and their move history, and stores their tombstones and events. It
// returns how many entries and rows of the move history it deleted. If the move history exceeds the limits, it
// deletes only the first entries: delete the others in the next transaction.
func deleteEntries(tx engine.Tx, tenant atrium.TenantID, at atrium.Time, found []erasedEntry, h *history) (deleted, historyRows int, err error) {
	most := h.rows
	rows, erased, counted := make([]engine.Args, 0, len(found)), make([]tombstones.Erased, 0, len(found)), make([]counts.Entry, 0, len(found))
	for i := range found {
		e := &found[i]
		rest, err := deleteMoveHistory(tx, tenant, e.EntryID, e.lastMove, h)
		if err != nil {
			return 0, 0, err
		}
		if rest != "" { // the next transaction continues from here
			if _, err := tx.Exec("UPDATE entries SET move_id = $1 WHERE tenant_id = $2 AND entry_id = $3", kernel.IDArg(rest), kernel.IDArg(tenant), kernel.IDArg(e.EntryID)); err != nil {
				return 0, 0, err
			}
			break
		}
		rows, erased = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(e.EntryID)}), append(erased, e.Erased)
		counted = append(counted, counts.Entry{ID: e.EntryID, CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type})
	}
	if err := tombstones.Write(tx, tenant, erased); err != nil {
		return 0, 0, err
	}
	if _, err := tx.Batch(deleteEntryRows, rows, nil); err != nil {
		return 0, 0, fmt.Errorf("delete erased entries: %w", err)
	}
	if err := writeErased(tx, tenant, at, erased); err != nil {
		return 0, 0, err
	}
	if err := counts.Remove(tx, tenant, counted); err != nil {
		return 0, 0, err
	}
	return len(rows), most - h.rows, nil
}

// writeErased stores the events of erased entries. The deletion of old entries by a retention rule causes none.
func writeErased(tx engine.Tx, tenant atrium.TenantID, at atrium.Time, erased []tombstones.Erased) error {
	var refs []kernel.EventRef
	for i := range erased {
		if e := &erased[i]; e.ExpiresAt == nil {
			refs = append(refs, kernel.EventRef{Kind: atrium.EventKeyErased, Entry: e.EntryID, Account: e.AccountID})
		}
	}
	if len(refs) == 0 {
		return nil
	}
	enabled, err := kernel.EventsEnabled(tx.Query, tenant)
	if err != nil || !enabled {
		return err
	}
	return kernel.WriteOutbox(tx, kernel.TenantEvents{Tenant: tenant, At: at, Refs: refs})
}

// deleteMoveHistory deletes the move history of an entry, newest first, within the limits of h. It
// returns the newest move that remains, "" if none does.
func deleteMoveHistory(tx engine.Tx, tenant atrium.TenantID, entry atrium.EntryID, last atrium.MoveID, h *history) (atrium.MoveID, error) {
	for last != "" {
		if fits, err := h.add(tx, tenant, last); err != nil || !fits {
			return last, err
		}
		args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(last), kernel.IDArg(entry)}
		last = ""
		if err := tx.Query("DELETE FROM moved_entries WHERE tenant_id = $1 AND move_id = $2 AND entry_id = $3 RETURNING previous_move_id", args,
			func(r engine.Row) error {
				last = kernel.IDAt[atrium.MoveID](r, 0)
				return nil
			}); err != nil {
			return "", fmt.Errorf("delete moves of an erased entry: %w", err)
		}
	}
	return last, nil
}

// maxAccounts is the maximum number of accounts whose entries a transaction deletes. It locks them and
// their groups.
const maxAccounts = 50

// ofFirstAccounts returns the first entries that belong to at most maxAccounts accounts.
func ofFirstAccounts(found []entries.Found) []entries.Found {
	accounts := map[atrium.AccountID]bool{}
	for i := range found {
		if accounts[found[i].AccountID] = true; len(accounts) > maxAccounts {
			return found[:i]
		}
	}
	return found
}

// accountsOf returns the accounts of entries, each once.
func accountsOf(found []entries.Found) []atrium.AccountID {
	ids := make([]atrium.AccountID, len(found))
	for i := range found {
		ids[i] = found[i].AccountID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

var lockErased = engine.NewBatch("SELECT "+erasedColumns+` FROM batch JOIN entries e
	ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea").Lock("e", "e.tenant_id, e.entry_id")

// deleteFound deletes entries, their move history and the rules of the moves that moved them, stores
// tombstones with an expiry, nil for never, and updates the latest activity of the accounts. The
// entries belong to at most maxAccounts accounts; entries.LockAccounts has locked these, and returned
// survivors. Redactions are recorded in the audit log under subject.
//
// deleted is how many entries it deleted, and done how many it is done with, including those that
// another transaction had deleted: the others exceed what one transaction may delete. If done is 0, it
// has deleted only rows of the move history: call it again in the next transaction.
func deleteFound(tx *kernel.Mutation, subject string, found []entries.Found, survivors map[atrium.AccountID]atrium.AccountID, expiry *atrium.Time,
) (deleted, done int, err error) {
	tenant, changed := tx.Change.TenantID, map[atrium.AccountID]bool{}
	rows, place := make([]engine.Args, len(found)), make(map[atrium.EntryID]int, len(found))
	for i := range found {
		changed[found[i].AccountID] = true
		rows[i], place[found[i].EntryID] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(found[i].EntryID)}, i
	}
	var locked []erasedEntry
	if _, err := tx.Batch(lockErased, rows, func(r engine.Row) error {
		e := scanErased(r)
		if survivors[e.storedIn] != "" { // the tombstones of an erased account are permanent
			e.ExpiresAt = expiry
		}
		locked = append(locked, e)
		return nil
	}); err != nil {
		return 0, 0, err
	}
	slices.SortFunc(locked, func(a, b erasedEntry) int { return cmp.Compare(place[a.EntryID], place[b.EntryID]) })
	bytes, fits := 0, len(locked)
	for i := range locked {
		if !changed[locked[i].storedIn] { // it was moved after it was found
			return 0, 0, errOutdated
		}
		if bytes += locked[i].bytes; bytes > eraseBatchBytes && i > 0 {
			fits = i
			break
		}
	}
	h := history{rows: eraseBatchRows, rules: map[atrium.MoveID]bool{}}
	if deleted, _, err = deleteEntries(tx, tenant, tx.At, locked[:fits], &h); err != nil {
		return 0, 0, err
	}
	if err := redactMoves(tx, subject, slices.Collect(maps.Keys(h.rules))); err != nil {
		return 0, 0, err
	}
	if deleted > 0 {
		err = entries.RecomputeActivity(tx, changed, survivors)
	}
	switch {
	case deleted == len(locked):
		done = len(found)
	case deleted > 0:
		done = place[locked[deleted-1].EntryID] + 1
	}
	return deleted, done, err
}

// search reads what the rule of an erasure selects. On a server, it then waits for as long as that took:
// this process compares what it reads, and InTurn does not pause there.
func (s *Store) search(ctx context.Context, read func(engine.Tx) error) error {
	began := time.Now()
	if err := s.db.Read(ctx, read); err != nil || !s.db.Engine.Traits().Remote {
		return err
	}
	select {
	case <-time.After(time.Since(began)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// eraseMatching deletes a batch of the entries that the rule selects, and the rules of the moves that
// moved them.
func (s *Store) eraseMatching(ctx context.Context, j *job) error {
	search, err := entries.NewSearch(&j.rule)
	if err != nil {
		return err
	}
	var found []entries.Found
	var next *atrium.Position
	if err := s.search(ctx, func(tx engine.Tx) (err error) {
		found, next, err = search.Find(tx, j.TenantID, j.AccountID, j.after, eraseBatchEntries)
		if errors.Is(err, engine.ErrNoRow) { // the account was erased
			err = nil
		}
		return err
	}); err != nil {
		return err
	}
	if batch := ofFirstAccounts(found); len(batch) < len(found) {
		found, next = batch, &batch[len(batch)-1].At
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		survivors, err := j.lockAccounts(tx, found)
		if err != nil {
			return err
		}
		n, done, err := deleteFound(tx, string(j.ID), found, survivors, nil)
		switch {
		case err != nil:
			return err
		case done == len(found):
			return j.advance(tx, next, erasedCounts{entries: n})
		case done == 0: // only rows of the move history were deleted
			return nil
		}
		return j.advance(tx, &found[done-1].At, erasedCounts{entries: n})
	})
}

// lockAccounts locks the accounts of found entries. If the erasure is of one account, it returns
// errOutdated if they no longer belong to it: a merge was undone after they were found.
func (j *job) lockAccounts(tx *kernel.Mutation, found []entries.Found) (survivors map[atrium.AccountID]atrium.AccountID, err error) {
	ids := accountsOf(found)
	if j.AccountID != "" {
		ids = append(ids, j.AccountID)
	}
	if survivors, err = entries.LockAccounts(tx, ids); err != nil || j.AccountID == "" {
		return survivors, err
	}
	for _, id := range accountsOf(found) {
		if survivors[id] != survivors[j.AccountID] {
			return nil, errOutdated
		}
	}
	return survivors, nil
}
