package entries

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file changes the accounts of entries. Such a change first locks the accounts, in the same
// order as appends. Their entries then cannot change until the transaction ends, so their latest
// activity can be computed.
//
// An embedded engine writes the whole row of a moved entry again, with its payload. Changes count
// the bytes of these rows before they read or write them.

// rowBytes is a SQL expression for the size in bytes of the row of an entry e. It does not read
// the payload.
var rowBytes = kernel.OctetLength("e.source", "e.type", "e.claimed_domain", "e.claimed_name", "e.idempotency_key", "e.payload")

var (
	selectLocations = engine.NewBatch(`SELECT e.entry_id, e.account_id, e.move_id
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea")
	// acknowledged_account_id is NULL if the entry is back in the account that was acknowledged.
	updateLocationRows = engine.NewBatch(`UPDATE entries SET account_id = batch.account_id, move_id = batch.move_id, acknowledged_account_id =
			CASE WHEN COALESCE(entries.acknowledged_account_id, entries.account_id) = batch.account_id THEN NULL
			ELSE COALESCE(entries.acknowledged_account_id, entries.account_id) END
		FROM batch WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea", "account_id bytea", "move_id bytea")
	insertMoved = engine.NewBatch(`INSERT INTO moved_entries (tenant_id, move_id, entry_id, from_account_id, previous_move_id)
		SELECT batch.tenant_id, move_id, entry_id, from_account_id, previous_move_id FROM batch`,
		"tenant_id bytea", "move_id bytea", "entry_id bytea", "from_account_id bytea", "previous_move_id bytea")
	// Rows must be deleted when no entry leads to them: an erasure would not find them.
	deleteMoved = engine.NewBatch(`DELETE FROM moved_entries USING batch
		WHERE moved_entries.tenant_id = batch.tenant_id AND moved_entries.move_id = batch.move_id AND moved_entries.entry_id = batch.entry_id`,
		"tenant_id bytea", "move_id bytea", "entry_id bytea")
)

// A location is the account that stores an entry, and the last move of the entry.
type location struct {
	account atrium.AccountID
	move    atrium.MoveID
}

// findLocations returns the locations of those of the entries that exist.
func findLocations(tx *kernel.Mutation, ids []atrium.EntryID) (map[atrium.EntryID]location, error) {
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}
	}
	found := make(map[atrium.EntryID]location, len(ids))
	_, err := tx.Batch(selectLocations, rows, func(r engine.Row) error {
		found[kernel.IDAt[atrium.EntryID](r, 0)] = location{kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.MoveID](r, 2)}
		return nil
	})
	return found, err
}

// updateLocations stores new locations of entries.
func updateLocations(tx *kernel.Mutation, locations map[atrium.EntryID]location) error {
	rows := make([]engine.Args, 0, len(locations))
	for _, id := range slices.Sorted(maps.Keys(locations)) {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), kernel.IDArg(locations[id].account), kernel.IDArg(locations[id].move)})
	}
	_, err := tx.Batch(updateLocationRows, rows, nil)
	return err
}

// relocate stores a move of entries and returns how many it moved. It skips entries that are no
// longer in the given account or no longer shown under m.From. If none are left, it does nothing.
func relocate(tx *kernel.Mutation, m *atrium.Move, entries []matchedEntry) (int64, error) {
	bytes := 0
	for i := range entries {
		bytes += entries[i].value
	}
	if err := tx.CountBytes(bytes); err != nil {
		return 0, err
	}
	tenant := tx.Change.TenantID
	accounts, ids := []atrium.AccountID{m.To}, make([]atrium.EntryID, len(entries))
	for i := range entries {
		accounts, ids[i] = append(accounts, entries[i].account), entries[i].entryID()
	}
	survivors, err := LockAccounts(tx, accounts)
	if err != nil {
		return 0, err
	}
	if survivors[m.To] != m.To {
		return 0, kernel.ErrRace
	}
	found, err := findLocations(tx, ids)
	if err != nil {
		return 0, err
	}
	to, changed := make(map[atrium.EntryID]location, len(ids)), map[atrium.AccountID]bool{m.To: true}
	var moved []engine.Args
	for i, id := range ids {
		if now, ok := found[id]; ok && now.account == entries[i].account && survivors[now.account] == m.From {
			to[id], changed[now.account] = location{m.To, m.ID}, true
			moved = append(moved, engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID), kernel.IDArg(id), kernel.IDArg(now.account), kernel.IDArg(now.move)})
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
	if err := updateLocations(tx, to); err != nil {
		return 0, err
	}
	return m.Moved, RecomputeActivity(tx, changed, survivors)
}

// UndoMove moves the entries of a move back, except those that were moved again. It first calls
// check with the current move, and returns its error. It returns NotFound if there is no such
// move, and Conflict if it was already undone.
func (s *Store) UndoMove(ctx context.Context, c atrium.Change, id atrium.MoveID, check func(atrium.Move) error) (atrium.UndoReport, bool, error) {
	var rule []byte
	report, replayed, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (report atrium.UndoReport, err error) {
		m := &report.Move
		if err := tx.CountSize(tx.Lock, "SELECT "+kernel.OctetLength("v.rule")+" FROM moves v WHERE tenant_id = $1 AND move_id = $2",
			engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}); err != nil {
			return report, err
		}
		if err := engine.Find(tx.Lock, selectMove, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)},
			func(r engine.Row) { *m = scanMove(r, c.TenantID) }); err != nil {
			return report, err
		}
		if err := check(*m); err != nil {
			return report, err
		}
		if m.UndoneAt != nil {
			return report, atrium.Errorf(atrium.CodeConflict, "The move was undone already, at %s.", m.UndoneAt.Std().Format(time.RFC3339))
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

// selectMoved returns the entries of a move, what they had before it, and the sizes of their rows.
var selectMoved = "SELECT m.entry_id, m.from_account_id, m.previous_move_id, " + rowBytes + ` FROM moved_entries m
	LEFT JOIN entries e ON e.tenant_id = m.tenant_id AND e.entry_id = m.entry_id WHERE m.tenant_id = $1 AND m.move_id = $2`

// restore moves the entries of a move back and returns how many it moved.
func restore(tx *kernel.Mutation, m *atrium.Move) (int64, error) {
	accounts, back, bytes := []atrium.AccountID{m.To}, map[atrium.EntryID]location{}, 0
	if err := tx.Query(selectMoved,
		engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(m.ID)}, func(r engine.Row) error {
			was := location{kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.MoveID](r, 2)}
			accounts, back[kernel.IDAt[atrium.EntryID](r, 0)] = append(accounts, was.account), was
			bytes += int(r.Int(3))
			return nil
		}); err != nil {
		return 0, err
	}
	if err := tx.CountBytes(bytes); err != nil {
		return 0, err
	}
	survivors, err := LockAccounts(tx, accounts)
	if err != nil {
		return 0, err
	}
	found, err := findLocations(tx, slices.Collect(maps.Keys(back)))
	if err != nil {
		return 0, err
	}
	changed := map[atrium.AccountID]bool{m.To: true}
	for id, was := range back {
		if now := found[id]; now.move != m.ID || survivors[now.account] == "" || survivors[was.account] == "" {
			delete(back, id)
			continue
		}
		changed[was.account] = true
	}
	if len(back) == 0 {
		return 0, nil
	}
	if err := updateLocations(tx, back); err != nil {
		return 0, err
	}
	rows := make([]engine.Args, 0, len(back))
	for id := range back {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(m.ID), kernel.IDArg(id)})
	}
	if err := tx.PipelineExec(deleteMoved, rows); err != nil {
		return 0, err
	}
	return int64(len(back)), RecomputeActivity(tx, changed, survivors)
}

// LockAccounts locks accounts and their survivors, as every change of stored entries must do first. It
// sorts ids. It returns the account that each leads to; accounts that do not exist are missing.
func LockAccounts(tx *kernel.Mutation, ids []atrium.AccountID) (survivors map[atrium.AccountID]atrium.AccountID, err error) {
	slices.Sort(ids)
	var rows []engine.Args
	for _, id := range slices.Compact(ids) {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)})
	}
	survivors = map[atrium.AccountID]atrium.AccountID{}
	if _, err := tx.Batch(accounts.AccountRefsByID, rows, func(r engine.Row) error {
		id, survivor := kernel.IDAt[atrium.AccountID](r, 1), kernel.IDAt[atrium.AccountID](r, 3)
		survivors[id] = cmp.Or(survivor, id)
		if survivor != "" {
			survivors[survivor] = survivor
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(survivors)) {
		var now atrium.AccountID
		if err := tx.Lock("SELECT a.survivor_id FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND "+accounts.NotErased,
			engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}, func(r engine.Row) error {
				now = cmp.Or(kernel.IDAt[atrium.AccountID](r, 0), id)
				return nil
			}); err != nil {
			return nil, err
		}
		if now != survivors[id] {
			return nil, kernel.ErrRace
		}
	}
	return survivors, nil
}

var updateActivity = engine.NewBatch(`UPDATE accounts SET latest_activity_at = batch.at, active_minute = batch.minute
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id`,
	"tenant_id bytea", "account_id bytea", "at bigint", "minute bigint")

// RecomputeActivity sets the latest activity of the changed accounts and of those that they lead
// to. For a merged account, only its own entries count; for others, those of all accounts merged
// into it count too. LockAccounts must have locked all of them and returned survivors.
func RecomputeActivity(tx *kernel.Mutation, changed map[atrium.AccountID]bool, survivors map[atrium.AccountID]atrium.AccountID) error {
	tenant := tx.Change.TenantID
	sources := map[atrium.AccountID][]atrium.AccountID{} // by account: the accounts whose entries count
	var members []atrium.AccountID
	for id := range changed {
		if survivors[id] == "" {
			continue
		}
		sources[id] = []atrium.AccountID{id}
		ids, err := accounts.GroupIDs(tx.Query, tenant, survivors[id])
		if err != nil {
			return err
		}
		sources[survivors[id]], members = ids, append(members, ids...)
	}
	slices.Sort(members)
	newest, err := accounts.NewestEntries(tx, tenant, slices.Compact(members))
	if err != nil {
		return err
	}
	rows := make([]engine.Args, 0, len(sources))
	for id, ids := range sources {
		var latest *atrium.Time
		for _, member := range ids {
			if at := newest[member]; at != nil && (latest == nil || *at > *latest) {
				latest = at
			}
		}
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), kernel.NullableTime(latest), accounts.ActiveMinute(latest)})
	}
	_, err = tx.Batch(updateActivity, rows, nil)
	return err
}
