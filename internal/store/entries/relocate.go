package entries

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file changes which accounts entries are kept under. Whoever does that locks
// the accounts first, in the order in which appends touch them: then no entry comes to
// them or leaves them until the transaction ends, and what their newest activity is
// can be read.

var (
	findPlaces = engine.NewBatch(`SELECT e.entry_id, e.account_id, e.move_id
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea")
	// An entry that comes back to the account that was acknowledged is as it was.
	updatePlaces = engine.NewBatch(`UPDATE entries SET account_id = batch.account_id, move_id = batch.move_id, acknowledged_account_id =
			CASE WHEN COALESCE(entries.acknowledged_account_id, entries.account_id) = batch.account_id THEN NULL
			ELSE COALESCE(entries.acknowledged_account_id, entries.account_id) END
		FROM batch WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea", "account_id bytea", "move_id bytea")
	insertMoved = engine.NewBatch(`INSERT INTO moved_entries (tenant_id, move_id, entry_id, from_account_id, previous_move_id)
		SELECT batch.tenant_id, move_id, entry_id, from_account_id, previous_move_id FROM batch`,
		"tenant_id bytea", "move_id bytea", "entry_id bytea", "from_account_id bytea", "previous_move_id bytea")
	// No entry leads to these any more, so that its erasure would not find them.
	deleteMoved = engine.NewBatch(`DELETE FROM moved_entries USING batch
		WHERE moved_entries.tenant_id = batch.tenant_id AND moved_entries.move_id = batch.move_id AND moved_entries.entry_id = batch.entry_id`,
		"tenant_id bytea", "move_id bytea", "entry_id bytea")
)

// A place is the account that keeps an entry, and the move that brought it there.
type place struct {
	account atrium.AccountID
	move    atrium.MoveID
}

// places returns where entries are that there are.
func places(tx *kernel.Mutation, ids []atrium.EntryID) (map[atrium.EntryID]place, error) {
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}
	}
	found := make(map[atrium.EntryID]place, len(ids))
	_, err := tx.Batch(findPlaces, rows, func(r engine.Row) error {
		found[kernel.IDAt[atrium.EntryID](r, 0)] = place{kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.MoveID](r, 2)}
		return nil
	})
	return found, err
}

// put keeps entries at other places.
func put(tx *kernel.Mutation, places map[atrium.EntryID]place) error {
	rows := make([]engine.Args, 0, len(places))
	for _, id := range slices.Sorted(maps.Keys(places)) {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), kernel.IDArg(places[id].account), kernel.IDArg(places[id].move)})
	}
	_, err := tx.Batch(updatePlaces, rows, nil)
	return err
}

// relocate makes a move of those of the entries that are still where they were found,
// and shown under m.From, and returns how many these are. Without any it does nothing.
func relocate(tx *kernel.Mutation, m *atrium.Move, entries []placed[struct{}]) (int64, error) {
	tenant := tx.Change.TenantID
	accounts, ids := []atrium.AccountID{m.To}, make([]atrium.EntryID, len(entries))
	for i := range entries {
		accounts, ids[i] = append(accounts, entries[i].account), entries[i].entry()
	}
	leads, err := lockAccounts(tx, accounts)
	if err != nil {
		return 0, err
	}
	if leads[m.To] != m.To {
		return 0, kernel.ErrRace
	}
	found, err := places(tx, ids)
	if err != nil {
		return 0, err
	}
	to, touched := make(map[atrium.EntryID]place, len(ids)), map[atrium.AccountID]bool{m.To: true}
	var moved []engine.Args
	for i, id := range ids {
		if is, ok := found[id]; ok && is.account == entries[i].account && leads[is.account] == m.From {
			to[id], touched[is.account] = place{m.To, m.ID}, true
			moved = append(moved, engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.IDArg(id), kernel.IDArg(is.account), kernel.IDArg(is.move)})
		}
	}
	if m.Moved = int64(len(moved)); m.Moved == 0 {
		return 0, nil
	}
	if _, err := tx.Exec("INSERT INTO moves (tenant_id, move_id, from_account_id, to_account_id, rule, moved, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.IDArg(m.From), kernel.IDArg(m.To), m.Rule, m.Moved, int64(m.CreatedAt)); err != nil {
		return 0, err
	}
	if err := tx.PipelineExec(insertMoved, moved); err != nil {
		return 0, err
	}
	if err := put(tx, to); err != nil {
		return 0, err
	}
	return m.Moved, readActivity(tx, touched, leads)
}

// UndoMove takes the entries of a move that no other one has moved since back to where
// they were. The move as it stands is first given to check, whose error ends the call.
// It is NotFound if there is no such move, and Conflict if it was undone already.
func (s *Store) UndoMove(ctx context.Context, c atrium.Change, id atrium.MoveID, check func(atrium.Move) error) (atrium.UndoReport, bool, error) {
	var rule []byte
	report, replayed, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (report atrium.UndoReport, err error) {
		m := &report.Move
		if err := engine.Find(tx.Lock, selectMove, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)},
			func(r engine.Row) { *m = scanMove(r, c.TenantID) }); err != nil {
			return report, err
		}
		if err := check(*m); err != nil {
			return report, err
		}
		if m.UndoneAt != nil {
			return report, atrium.Errorf(atrium.CodeConflict, "The move was undone already. Only one that was not can be.")
		}
		if report.Restored, err = restore(tx, m); err != nil {
			return report, err
		}
		report.Skipped, m.UndoneAt = m.Moved-report.Restored, tx.NotBefore(m.CreatedAt)
		rule, m.Rule = m.Rule, nil
		tx.RecordDetail("move.undo", string(id), map[string]any{"restored": report.Restored, "skipped": report.Skipped})
		_, err = tx.Exec("UPDATE moves SET undone_at = $1 WHERE tenant_id = $2 AND move_id = $3", int64(*m.UndoneAt), kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return report, err
	})
	if err == nil {
		err = s.setRule(ctx, &report.Move, rule, replayed)
	}
	return report, replayed, err
}

// restore puts the entries of a move back and returns how many it has put.
func restore(tx *kernel.Mutation, m *atrium.Move) (int64, error) {
	accounts, back := []atrium.AccountID{m.To}, map[atrium.EntryID]place{}
	if err := tx.Query("SELECT entry_id, from_account_id, previous_move_id FROM moved_entries WHERE tenant_id = $1 AND move_id = $2",
		engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(m.ID)}, func(r engine.Row) error {
			was := place{kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.MoveID](r, 2)}
			accounts, back[kernel.IDAt[atrium.EntryID](r, 0)] = append(accounts, was.account), was
			return nil
		}); err != nil {
		return 0, err
	}
	leads, err := lockAccounts(tx, accounts)
	if err != nil {
		return 0, err
	}
	found, err := places(tx, slices.Collect(maps.Keys(back)))
	if err != nil {
		return 0, err
	}
	touched := map[atrium.AccountID]bool{m.To: true}
	for id, was := range back {
		if is := found[id]; is.move != m.ID || leads[is.account] == "" || leads[was.account] == "" {
			delete(back, id)
			continue
		}
		touched[was.account] = true
	}
	if len(back) == 0 {
		return 0, nil
	}
	if err := put(tx, back); err != nil {
		return 0, err
	}
	rows := make([]engine.Args, 0, len(back))
	for id := range back {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(m.ID), kernel.IDArg(id)})
	}
	if err := tx.PipelineExec(deleteMoved, rows); err != nil {
		return 0, err
	}
	return int64(len(back)), readActivity(tx, touched, leads)
}

// lockAccounts locks accounts and those that they were merged into, and returns what
// each leads to. Those that do not exist are left out.
func lockAccounts(tx *kernel.Mutation, ids []atrium.AccountID) (leads map[atrium.AccountID]atrium.AccountID, err error) {
	slices.Sort(ids)
	var rows []engine.Args
	for _, id := range slices.Compact(ids) {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)})
	}
	hashes := map[string]atrium.AccountID{}
	leads = map[atrium.AccountID]atrium.AccountID{}
	if _, err := tx.Batch(accounts.AccountRefsByID, rows, func(r engine.Row) error {
		id, survivor := kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.AccountID](r, 3)
		hashes[string(r.Bytes(2))], leads[id] = id, cmp.Or(survivor, id)
		if survivor != "" {
			hashes[string(r.Bytes(4))], leads[survivor] = survivor, survivor
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, hash := range slices.Sorted(maps.Keys(hashes)) {
		id := hashes[hash]
		var is atrium.AccountID
		if err := tx.Lock("SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+accounts.NotErased,
			engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}, func(r engine.Row) error {
				is = cmp.Or(kernel.IDAt[atrium.AccountID](r, 0), id)
				return nil
			}); err != nil {
			return nil, err
		}
		if is != leads[id] {
			return nil, kernel.ErrRace
		}
	}
	return leads, nil
}

var updateActivity = engine.NewBatch(`UPDATE accounts SET latest_activity_at = batch.at, active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
	"tenant_id bytea", "account_id bytea", "at bigint", "minute bigint")

// readActivity notes the newest activity of accounts that are locked, and of those that
// they lead to: of its own entries for an account that was merged into another one,
// and of all that are shown under it for any other.
func readActivity(tx *kernel.Mutation, changed map[atrium.AccountID]bool, leads map[atrium.AccountID]atrium.AccountID) error {
	tenant := tx.Change.TenantID
	counts := map[atrium.AccountID][]atrium.AccountID{} // the accounts whose entries count, by the account
	var wanted []atrium.AccountID
	for id := range changed {
		if leads[id] == "" {
			continue
		}
		counts[id] = []atrium.AccountID{id}
		all, err := accounts.GroupIDs(tx.Query, tenant, leads[id])
		if err != nil {
			return err
		}
		counts[leads[id]], wanted = all, append(wanted, all...)
	}
	slices.Sort(wanted)
	newest, err := accounts.NewestEntries(tx, tenant, slices.Compact(wanted))
	if err != nil {
		return err
	}
	rows := make([]engine.Args, 0, len(counts))
	for id, all := range counts {
		var latest *atrium.Time
		for _, member := range all {
			if at := newest[member]; at != nil && (latest == nil || *at > *latest) {
				latest = at
			}
		}
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.NullableTime(latest), accounts.ActiveMinute(latest)})
	}
	_, err = tx.Batch(updateActivity, rows, nil)
	return err
}
