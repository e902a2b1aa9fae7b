package entries

import (
	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
)

// A Search finds the entries that an erasure's rule selects. It is safe for concurrent use.
type Search struct{ matcher matcher }

// NewSearch returns the Search of a rule, which must have conditions for entries.
func NewSearch(rule *atrium.ErasureRule) (*Search, error) {
	m, err := newMatcher(&rule.MoveRule)
	if rule.Text != "" {
		m.texts = map[string]bool{canonical.Name(rule.Text): true}
	}
	return &Search{m}, err
}

// A Found is an entry that a Search has found.
type Found struct {
	EntryID   atrium.EntryID
	AccountID atrium.AccountID // that stores it
	At        atrium.Position
}

// Find returns up to limit entries after a position, nil for the first page: of all accounts by
// identifier, highest first, or of one account and those merged into it, newest first. next is the
// position to continue after, nil at the end. It reads at most maxMatchEntries entries and
// maxMatchBytes of what it compares, so it may find none before the end. It returns engine.ErrNoRow if
// the account does not exist.
func (s *Search) Find(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, after *atrium.Position, limit int) (found []Found, next *atrium.Position, err error) {
	columns := claimedColumns + rowBytes
	it := newTenantIterator(tx, tenant, after, maxChunk, columns, scanClaimed)
	if account != "" {
		_, group, err := accounts.FindGroupIDs(tx, tenant, account)
		if err != nil {
			return nil, nil, err
		}
		it = newEntryIterator(tx, tenant, group, &atrium.TimelineFilter{}, after, maxChunk, columns, scanClaimed)
	}
	matching, next, err := s.matcher.search(it, limit, maxMoveBytes)
	for i := range matching {
		found = append(found, Found{matching[i].entryID(), matching[i].account, matching[i].position})
	}
	return found, next, err
}

// Describe returns what an operator sees of the entries that a Search has found, in their order.
func Describe(tx engine.Tx, tenant atrium.TenantID, found []Found) (all []atrium.Match, err error) {
	matching := make([]matchedEntry, len(found))
	for i := range found {
		matching[i].position = found[i].At
	}
	entries, err := findMatched(tx, tenant, matching)
	for _, e := range entries {
		all = append(all, atrium.Match{EntryID: e.ID, AccountID: e.AccountID, CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type})
	}
	return all, err
}
