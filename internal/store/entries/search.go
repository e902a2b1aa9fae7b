package entries

import (
	"bytes"
	"slices"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Search finds the entries that an erasure's rule selects. It is safe for concurrent use.
type Search struct {
	matcher matcher
	ids     []atrium.EntryID // of the only entries to compare; none for all
}

// NewSearch returns the Search of a rule, which must have conditions for entries.
func NewSearch(rule *atrium.ErasureRule) (*Search, error) {
	m, err := newMatcher(&rule.MoveRule)
	if rule.Text != "" {
		m.texts = map[string]bool{canonical.Name(rule.Text): true}
	}
	m.part = canonical.Name(rule.TextContains)
	return &Search{m, rule.EntryIDs}, err
}

// A Found is an entry that a Search has found.
type Found struct {
	EntryID   atrium.EntryID
	AccountID atrium.AccountID // that stores it
	At        atrium.Position
}

// Find returns up to limit entries after a position, nil for the first page: by identifier, highest
// first, or if all of one account and those merged into it are compared, newest first. next is
// the position to continue after, nil at the end. It reads at most maxMatchEntries entries and
// maxMatchBytes of what it compares, so it may find none before the end. It returns engine.ErrNoRow if
// the account does not exist.
func (s *Search) Find(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, after *atrium.Position, limit int) (found []Found, next *atrium.Position, err error) {
	m, columns := s.matcher, claimedColumns+rowBytes
	var group []atrium.AccountID
	if account != "" {
		if _, group, err = accounts.FindGroupIDs(tx, tenant, account); err != nil {
			return nil, nil, err
		}
	}
	var it *entryIterator[claimRow]
	switch {
	case len(s.ids) > 0:
		m.accounts = setOf(group)
		if it, err = newListIterator(tx, tenant, s.ids, after); err != nil {
			return nil, nil, err
		}
	case group != nil:
		it = newEntryIterator(tx, tenant, group, &atrium.TimelineFilter{}, after, maxChunk, columns, scanClaimed)
	default:
		it = newTenantIterator(tx, tenant, after, maxChunk, columns, scanClaimed)
	}
	matching, next, err := m.search(it, limit, maxMoveBytes)
	for i := range matching {
		found = append(found, Found{matching[i].entryID(), matching[i].account, matching[i].position})
	}
	return found, next, err
}

var findListed = engine.NewBatch("SELECT e.created_at, e.entry_id, e.account_id, "+claimedColumns+rowBytes+` FROM batch JOIN entries e
	ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea")

// newListIterator returns an iterator of the entries with the given identifiers, at most
// atrium.MaxErasureEntries, like newTenantIterator. It reads them at once.
func newListIterator(tx engine.Tx, tenant atrium.TenantID, ids []atrium.EntryID, after *atrium.Position) (*entryIterator[claimRow], error) {
	var rows []engine.Args
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)})
	}
	listed := &accountCursor[claimRow]{done: true}
	_, err := tx.Batch(findListed, rows, func(r engine.Row) error {
		at := atrium.PositionAt(atrium.Time(r.Int(0)), kernel.IDAt[atrium.EntryID](r, 1))
		if after != nil && bytes.Compare(kernel.PackID(at.ID), kernel.PackID(after.ID)) >= 0 {
			return nil
		}
		listed.rows = append(listed.rows, entryRow[claimRow]{*at, kernel.IDAt[atrium.AccountID](r, 2), scanClaimed(r)})
		return nil
	})
	slices.SortFunc(listed.rows, func(a, b entryRow[claimRow]) int {
		return bytes.Compare(kernel.PackID(b.position.ID), kernel.PackID(a.position.ID))
	})
	return &entryIterator[claimRow]{tx: tx, tenant: tenant, cursors: []*accountCursor[claimRow]{listed}}, err
}

// Describe returns what an operator sees of the entries that a Search has found, in their order.
func Describe(tx engine.Tx, tenant atrium.TenantID, found []Found) (all []atrium.Match, err error) {
	matching := make([]matchedEntry, len(found))
	for i := range found {
		matching[i].position = found[i].At
	}
	entries, err := findMatched(tx, tenant, matching, false)
	for _, e := range entries {
		all = append(all, atrium.Match{EntryID: e.ID, AccountID: e.AccountID, CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type})
	}
	return all, err
}
