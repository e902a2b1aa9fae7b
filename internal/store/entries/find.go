package entries

import (
	"context"
	"errors"
	"slices"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// FindEntries returns a page of up to limit entries of a tenant that match a filter, after a position, nil
// for the first page, with payloads if requested. next is the position to continue after, nil at the end.
//
// Entries are sorted by identifier, highest first. With AccountID or Unattributed, they are sorted
// like a Timeline instead, newest first: the index of that account finds them. Only an idempotency
// key has another index. All other filters are compared with one entry after the other, so a page
// may be short, or even empty, before the end: it reads at most maxMatchEntries entries and
// maxMatchBytes of the texts that it compares, and returns at most kernel.ListBytes, or one entry. An
// account that does not exist has no entries.
func (s *Store) FindEntries(ctx context.Context, tenant atrium.TenantID, f atrium.EntryFilter, after *atrium.Position, limit int, payloads bool,
) (found []atrium.TimelineEntry, next *atrium.Position, err error) {
	m := &matcher{filter: f.TimelineFilter, name: canonical.Name(f.ClaimedName)}
	if f.ClaimedDomain != "" {
		m.domain = canonical.Domain(f.ClaimedDomain)
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		found, next = nil, nil
		group, err := filteredAccounts(tx, tenant, &f)
		if errors.Is(err, engine.ErrNoRow) {
			return nil
		}
		if err != nil {
			return err
		}
		chunk := limit + 1
		if m.selective() {
			chunk = maxChunk
		}
		columns := claimedColumns + textBytes
		if payloads {
			columns = claimedColumns + rowBytes
		}
		var it *entryIterator[claimRow]
		m.accounts = nil
		switch {
		case f.IdempotencyKey != "":
			it, m.accounts = newKeyIterator(tx, tenant, f.IdempotencyKey, columns, scanClaimed), setOf(group)
		case group != nil:
			it = newEntryIterator(tx, tenant, group, &f.TimelineFilter, after, chunk, columns, scanClaimed)
		default:
			it = newTenantIterator(tx, tenant, after, chunk, columns, scanClaimed)
		}
		matching, position, err := m.search(it, limit, kernel.ListBytes)
		if err == nil {
			next = position
			found, err = findMatched(tx, tenant, matching, payloads)
		}
		if err == nil && payloads {
			err = addPayloads(tx, tenant, found)
		}
		return err
	})
	return found, next, err
}

// addPayloads reads the payloads of entries that have none, as they are long or were not read with their rows.
func addPayloads(tx engine.Tx, tenant atrium.TenantID, entries []atrium.TimelineEntry) error {
	var ids []atrium.EntryID
	for i := range entries {
		if entries[i].Payload == nil {
			ids = append(ids, entries[i].ID)
		}
	}
	payloads, err := readColumn(tx, tenant, findPayloads, ids)
	for i := range entries {
		if e := &entries[i]; e.Payload == nil {
			e.Payload = payloads[e.ID]
		}
	}
	return err
}

// setOf returns accounts as a set, nil for nil.
func setOf(accounts []atrium.AccountID) (set map[atrium.AccountID]bool) {
	if accounts != nil {
		set = map[atrium.AccountID]bool{}
	}
	for _, id := range accounts {
		set[id] = true
	}
	return set
}

// selective reports whether the matcher may exclude entries that an iterator returns.
func (m *matcher) selective() bool {
	return m.name != "" || m.domain != "" || m.filter != (atrium.TimelineFilter{})
}

// filteredAccounts returns the accounts that may have the entries, nil for all. It returns
// engine.ErrNoRow if none can.
func filteredAccounts(tx engine.Tx, tenant atrium.TenantID, f *atrium.EntryFilter) (group []atrium.AccountID, err error) {
	var survivor, unattributed atrium.AccountID
	if f.Unattributed {
		if unattributed, err = accounts.FindUnattributed(tx, tenant); err != nil {
			return nil, err
		}
		if survivor, group, err = accounts.FindGroupIDs(tx, tenant, unattributed); err != nil {
			return nil, err
		}
	}
	if f.AccountID == "" {
		return group, nil
	}
	shown, group, err := accounts.FindGroupIDs(tx, tenant, f.AccountID)
	if err == nil && f.Unattributed && shown != survivor {
		err = engine.ErrNoRow
	}
	return group, err
}

// CountUnattributed returns the number of entries in the unattributed account.
func (s *Store) CountUnattributed(ctx context.Context, tenant atrium.TenantID) (c atrium.UnattributedCount, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		c = atrium.UnattributedCount{}
		group, err := filteredAccounts(tx, tenant, &atrium.EntryFilter{Unattributed: true})
		if errors.Is(err, engine.ErrNoRow) {
			return nil
		}
		for _, account := range group {
			if err != nil || c.HasMore {
				break
			}
			err = tx.Query("SELECT COUNT(*) FROM (SELECT 1 FROM entries WHERE tenant_id = $1 AND account_id = $2 ORDER BY created_at, entry_id LIMIT $3) e",
				engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), atrium.MaxUnattributedCount + 1 - c.Count}, func(r engine.Row) error {
					c.Count += r.Int(0)
					return nil
				})
			if c.HasMore = c.Count > atrium.MaxUnattributedCount; c.HasMore {
				c.Count = atrium.MaxUnattributedCount
			}
		}
		return err
	})
	return c, err
}

// textBytes is a SQL expression for the size in bytes of the texts of an entry e without the payload.
var textBytes = kernel.OctetLength("e.source", "e.type", "e.claimed_domain", "e.claimed_name", "e.idempotency_key")

// matchedEntries returns a batch that finds entries, and what is in columns.
func matchedEntries(columns string) *engine.Batch {
	return engine.NewBatch("SELECT e.created_at, e.entry_id, e.account_id, "+timelineColumns+", a.survivor_id"+columns+`
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id
		JOIN accounts a ON a.tenant_id = e.tenant_id AND a.account_id = e.account_id AND `+accounts.NotErased,
		"tenant_id bytea", "entry_id bytea")
}

var (
	findMatchedEntries  = matchedEntries("")
	findMatchedPayloads = matchedEntries(", " + kernel.InlineOrNull("e.payload"))
)

// findMatched returns the matching entries, in their order, without those of erased accounts. Payloads that are
// not long are included if requested.
func findMatched(tx engine.Tx, tenant atrium.TenantID, matching []matchedEntry, payloads bool) ([]atrium.TimelineEntry, error) {
	if len(matching) == 0 {
		return nil, nil
	}
	rows, at := make([]engine.Args, len(matching)), make(map[atrium.EntryID]int, len(matching))
	for i := range matching {
		id := matching[i].entryID()
		rows[i], at[id] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, i
	}
	entries, batch := make([]atrium.TimelineEntry, len(matching)), findMatchedEntries
	if payloads {
		batch = findMatchedPayloads
	}
	if _, err := tx.Batch(batch, rows, func(r engine.Row) error {
		e := scanTimeline(r, tenant, kernel.IDAt[atrium.AccountID](r, afterTimeline))
		if payloads {
			e.Payload = r.Bytes(afterTimeline + 1)
		}
		entries[at[e.ID]] = e
		return nil
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e atrium.TimelineEntry) bool { return e.ID == "" }), nil
}
