package entries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const moveColumns = "v.move_id, v.from_account_id, v.to_account_id, v.rule, v.moved, v.created_at, v.undone_at"

func scanMove(r engine.Row, tenant atrium.TenantID) atrium.Move {
	return atrium.Move{
		ID: kernel.IDAt[atrium.MoveID](r, 0), TenantID: tenant, From: kernel.IDAt[atrium.AccountID](r, 1), To: kernel.IDAt[atrium.AccountID](r, 2),
		Rule: r.Bytes(3), Moved: r.Int(4), CreatedAt: atrium.Time(r.Int(5)), UndoneAt: kernel.TimeAt(r, 6),
	}
}

const selectMove = "SELECT " + moveColumns + " FROM moves v WHERE tenant_id = $1 AND move_id = $2"

// FindMove returns a move, or NotFound.
func (s *Store) FindMove(ctx context.Context, tenant atrium.TenantID, id atrium.MoveID) (m atrium.Move, err error) {
	err = s.db.Find(ctx, selectMove, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { m = scanMove(r, tenant) })
	return m, err
}

// Moves returns up to limit moves in the order of their identifiers, the last one
// first, that come after the position, or from the first for nil. more says whether
// others follow.
func (s *Store) Moves(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (moves []atrium.Move, more bool, err error) {
	q := kernel.Select("SELECT "+listedMove+" FROM moves v WHERE tenant_id = ", kernel.IDArg(tenant))
	if after != nil {
		q.Add(" AND move_id < ", kernel.PackID(after.ID))
	}
	q.Add(" ORDER BY move_id DESC LIMIT ", int64(limit)+1)
	scan := func(r engine.Row) atrium.Move { return scanMove(r, tenant) }
	moves, err = kernel.ListComplete(ctx, s.db, tenant, func(run kernel.QueryFunc) (found kernel.Items[atrium.Move], err error) {
		found, more, err = kernel.ListItems(run, q, limit, func(r *kernel.SizedRow) kernel.Item[atrium.Move] {
			m, bytes := scan(r), int(r.Int(7))
			return kernel.Item[atrium.Move]{Value: m, Bytes: bytes, Partial: bytes > len(m.Rule)}
		})
		return found, err
	}, movesByID, scan, func(m *atrium.Move) atrium.MoveID { return m.ID })
	return moves, more, err
}

var (
	listedMove = strings.Replace(moveColumns, "v.rule", kernel.InlineOrNull("v.rule"), 1) + ", " + kernel.OctetLength("v.rule")
	movesByID  = engine.NewBatch("SELECT "+moveColumns+" FROM batch JOIN moves v ON v.tenant_id = batch.tenant_id AND v.move_id = batch.id",
		"tenant_id bytea", "id bytea")
)

func errSameAccount() error {
	return atrium.Errorf(atrium.CodeConflict, "It is in that account already. Entries are moved to another one.")
}

// MoveEntry moves an entry to another account, or to the one which that was merged
// into. The entry as it stands is first given to check, whose error ends the call. It
// is NotFound if there is no such entry or account, and Conflict if the entry is
// there already.
func (s *Store) MoveEntry(ctx context.Context, c atrium.Change, id atrium.EntryID, to atrium.AccountID, check func(atrium.TimelineEntry) error) (atrium.Move, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (m atrium.Move, err error) {
		var entry atrium.TimelineEntry
		var kept atrium.AccountID
		if err := engine.Find(tx.Query, selectTimelineEntry, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)},
			func(r engine.Row) { entry, kept = scanTimelineEntry(r, c.TenantID) }); err != nil {
			return m, err
		}
		into, err := accounts.FindSurvivor(tx, c.TenantID, to)
		if err != nil {
			return m, err
		}
		if err := check(entry); err != nil {
			return m, err
		}
		if into == entry.AccountID {
			return m, errSameAccount()
		}
		m = newMove(tx, entry.AccountID, into, nil)
		found, err := relocate(tx, &m, []placed[struct{}]{{at: *atrium.PositionAt(entry.CreatedAt, id), account: kept}})
		if err == nil && found == 0 {
			err = kernel.ErrRace
		}
		if err != nil {
			return m, err
		}
		tx.RecordDetail("account_log.move", string(id), map[string]any{"moveId": m.ID, "before": accountDetail(m.From), "after": accountDetail(m.To)})
		return m, nil
	})
}

func accountDetail(id atrium.AccountID) map[string]any { return map[string]any{"accountId": id} }

func newMove(tx *kernel.Mutation, from, to atrium.AccountID, rule []byte) atrium.Move {
	return atrium.Move{
		ID: atrium.NewID[atrium.MoveID](), TenantID: tx.Change.TenantID, From: from, To: to, Rule: rule, CreatedAt: tx.At,
	}
}

// Move moves the entries of an account that the request says, newest first, and
// those of accounts merged into it, all in one transaction. It looks at a bounded
// number of them, and the report says where to go on. Entries that are moved by
// somebody else meanwhile are left. It is NotFound if there is no such account, and
// Conflict if both are the same.
func (s *Store) Move(ctx context.Context, c atrium.Change, request atrium.MoveRequest) (atrium.MoveReport, bool, error) {
	report, replayed, err := s.moveOnce(ctx, c, request)
	if err == nil && report.Move != nil {
		err = s.setRule(ctx, report.Move, request.Rule.Given, replayed)
	}
	return report, replayed, err
}

// setRule gives a move that was changed its rule, which its result was kept without, so
// that it is forgotten in one place: a replay gets what is left of it.
func (s *Store) setRule(ctx context.Context, m *atrium.Move, rule []byte, replayed bool) error {
	if m.Rule = rule; !replayed {
		return nil
	}
	now, err := s.FindMove(ctx, m.TenantID, m.ID)
	m.Rule = now.Rule
	return err
}

// moveOnce is Move, and leaves out the rule.
func (s *Store) moveOnce(ctx context.Context, c atrium.Change, request atrium.MoveRequest) (atrium.MoveReport, bool, error) {
	if report, replayed, err := kernel.StoredResult[atrium.MoveReport](ctx, s.db, c); err != nil || replayed {
		return report, replayed, err
	}
	matching, next, err := s.match(ctx, c.TenantID, &request)
	if err != nil {
		// The same request may have been answered before what it is refused for.
		if report, replayed, err := kernel.StoredResult[atrium.MoveReport](ctx, s.db, c); err != nil || replayed {
			return report, replayed, err
		}
		return atrium.MoveReport{}, false, err
	}
	report, replayed, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.MoveReport, error) {
		report := atrium.MoveReport{Next: next}
		if len(matching) == 0 {
			return report, kernel.ErrNothingToMove
		}
		from, to, err := between(tx, c.TenantID, request.From, request.To)
		if err != nil {
			return report, err
		}
		m := newMove(tx, from, to, request.Rule.Given)
		if report.Moved, err = relocate(tx, &m, matching); err != nil {
			return report, err
		}
		if report.Moved == 0 {
			return report, kernel.ErrNothingToMove
		}
		m.Rule, report.Move = nil, &m
		tx.Record("move.create", string(m.ID), nil, kernel.Fields{
			"fromAccountId": m.From, "toAccountId": m.To, "moved": m.Moved, "rule": ruleDetail(&request.Rule),
		})
		return report, nil
	})
	if errors.Is(err, kernel.ErrNothingToMove) {
		return atrium.MoveReport{Next: next}, false, nil
	}
	return report, replayed, err
}

// ruleDetail returns a rule without what it says of payloads, but for a hash of it.
func ruleDetail(r *atrium.MoveRule) map[string]any {
	claims := kernel.Fields{}
	if r.ClaimedName != "" {
		claims["claimedName"] = r.ClaimedName
	}
	if r.ClaimedDomain != "" {
		claims["claimedDomain"] = r.ClaimedDomain
	}
	detail := kernel.AuditValues(claims)
	if r.Pointer != "" {
		sum := sha256.Sum256(r.Equals)
		detail["payload"] = map[string]any{"pointer": r.Pointer, "equalsSha256": hex.EncodeToString(sum[:])}
	}
	return detail
}

// CheckMove returns what Move would report, as far as it was looked at, and moves
// nothing.
func (s *Store) CheckMove(ctx context.Context, tenant atrium.TenantID, request atrium.MoveRequest) (atrium.MoveReport, error) {
	matching, next, err := s.match(ctx, tenant, &request)
	return atrium.MoveReport{Moved: int64(len(matching)), Next: next}, err
}

// What a search for the entries of a move reads at most.
const (
	matchLimit = 10_000  // entries
	matchBytes = 4 << 20 // bytes of claims and payloads, and the entry that reaches it
	matchBatch = 1 << 20 // bytes of claims and payloads at a time, unless one entry has more
)

// match returns up to the limit of the entries that a request says, and sets the
// account that it names as From if it names none. What an entry claims and what it
// holds never changes, so nothing has to be locked for this.
func (s *Store) match(ctx context.Context, tenant atrium.TenantID, request *atrium.MoveRequest) (matching []placed[struct{}], next *atrium.Position, err error) {
	rule, err := newMatcher(&request.Rule)
	if err != nil {
		return nil, nil, err
	}
	given := request.From
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		matching, next = nil, nil
		if request.From = given; given == "" {
			if err := tx.Query("SELECT account_id FROM accounts WHERE tenant_id = $1 AND domain_hash = $2",
				engine.Args{kernel.IDArg(tenant), kernel.Hash16(atrium.UnattributedDomain)}, func(r engine.Row) error {
					request.From = kernel.IDAt[atrium.AccountID](r, 0)
					return nil
				}); err != nil {
				return err
			}
			if request.From == "" { // nothing is unattributed
				_, err := accounts.FindSurvivor(tx, tenant, request.To)
				return err
			}
		}
		from, _, err := between(tx, tenant, request.From, request.To)
		if err != nil {
			return err
		}
		kept, err := accounts.GroupIDs(tx.Query, tenant, from)
		if err != nil {
			return err
		}
		m := interleave(tx, tenant, kept, &atrium.TimelineFilter{}, request.After, mostChunk,
			claimedColumns, scanClaimed)
		matching, next, err = rule.search(m, request.Limit)
		return err
	})
	return matching, next, err
}

// between returns what two accounts lead to, which must not be the same.
func between(tx engine.Tx, tenant atrium.TenantID, from, to atrium.AccountID) (one, other atrium.AccountID, err error) {
	if other, err = accounts.FindSurvivor(tx, tenant, to); err != nil {
		return "", "", err
	}
	if one, err = accounts.FindSurvivor(tx, tenant, from); err == nil && one == other {
		err = errSameAccount()
	}
	return one, other, err
}

// A claimed is what a rule is compared with first. The domain is left out where it is
// long.
type claimed struct {
	name, domain              string
	domainBytes, payloadBytes int
}

func (c *claimed) lacksDomain() bool { return c.domainBytes > len(c.domain) }

var claimedColumns = "e.claimed_name, " + kernel.InlineOrNull("e.claimed_domain") + ", " + kernel.OctetLength("e.claimed_domain") + ", octet_length(e.payload)"

func scanClaimed(r engine.Row) claimed {
	return claimed{r.Text(2), r.Text(3), int(r.Int(4)), int(r.Int(5))}
}

// A matcher is a rule, ready to be compared.
type matcher struct {
	name, domain string
	pointer      canonical.Pointer // nil for none
	equals       []byte
}

func newMatcher(rule *atrium.MoveRule) (m matcher, err error) {
	if rule.ClaimedName != "" {
		m.name = canonical.Name(rule.ClaimedName)
	}
	if rule.ClaimedDomain != "" {
		m.domain = canonical.Domain(rule.ClaimedDomain)
	}
	if rule.Pointer != "" {
		m.pointer, _ = canonical.ParsePointer(rule.Pointer)
		m.equals, err = canonical.Value(rule.Equals)
	}
	return m, err
}

func (m *matcher) claims(c *claimed) bool {
	return (m.name == "" || c.name != "" && canonical.Name(c.name) == m.name) && (m.domain == "" || c.lacksDomain() || m.claimsDomain(c.domain))
}

func (m *matcher) claimsDomain(domain string) bool {
	return domain != "" && canonical.Domain(domain) == m.domain
}

// missing returns how many bytes of an entry have to be read to compare the rest.
func (m *matcher) missing(c *claimed) (bytes int) {
	if m.domain != "" && c.lacksDomain() {
		bytes += c.domainBytes
	}
	if m.pointer != nil {
		bytes += c.payloadBytes
	}
	return bytes
}

func (m *matcher) holds(payload []byte) bool {
	found := m.pointer.In(payload)
	if found == nil || found[0] == '{' || found[0] == '[' {
		return false
	}
	value, err := canonical.Value(found)
	return err == nil && bytes.Equal(value, m.equals)
}

// search returns up to limit of the entries that match, and the place of the last one
// that was looked at, nil at the end.
func (m *matcher) search(all *interleaving[claimed], limit int) (matching []placed[struct{}], next *atrium.Position, err error) {
	var batch []placed[claimed] // from the first one of which more has to be read: matching stays in order
	var last *atrium.Position
	held, read := 0, 0
	for looked := 0; ; looked++ {
		p, err := all.next()
		if err != nil {
			return nil, nil, err
		}
		ended := p == nil || looked == matchLimit || len(matching) == limit || read >= matchBytes
		if len(batch) > 0 && (ended || held+m.missing(&p.value) > matchBatch || len(batch) == mostChunk) {
			found, err := m.compare(all, batch)
			if err != nil {
				return nil, nil, err
			}
			if room := limit - len(matching); len(found) > room { // the others come the next time
				return append(matching, found[:room]...), &found[room-1].at, nil
			}
			matching, batch, held = append(matching, found...), nil, 0
			ended = ended || len(matching) == limit
		}
		switch {
		case p == nil:
			return matching, nil, nil
		case ended:
			return matching, last, nil
		}
		last = &p.at
		read += len(p.value.name) + len(p.value.domain)
		switch missing := m.missing(&p.value); {
		case !m.claims(&p.value):
		case missing == 0 && len(batch) == 0:
			matching = append(matching, placed[struct{}]{at: p.at, account: p.account})
		default:
			batch, held, read = append(batch, *p), held+missing, read+missing
		}
	}
}

// compare returns those of the entries that match in what is read of them only now.
func (m *matcher) compare(all *interleaving[claimed], entries []placed[claimed]) (some []placed[struct{}], err error) {
	var lacking, ids []atrium.EntryID
	for i := range entries {
		if m.domain != "" && entries[i].value.lacksDomain() {
			lacking = append(lacking, entries[i].entry())
		}
	}
	domains, err := columnOf(all.tx, all.tenant, findClaimedDomains, lacking)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(p placed[claimed]) bool {
		domain, lacked := domains[p.entry()]
		return lacked && !m.claimsDomain(string(domain))
	})
	if m.pointer != nil {
		for i := range entries {
			ids = append(ids, entries[i].entry())
		}
	}
	payloads, err := columnOf(all.tx, all.tenant, findPayloads, ids)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if m.pointer == nil || m.holds(payloads[entries[i].entry()]) {
			some = append(some, placed[struct{}]{at: entries[i].at, account: entries[i].account})
		}
	}
	return some, nil
}

// entry returns the identifier of the entry.
func (p *placed[T]) entry() atrium.EntryID {
	return atrium.EntryID(atrium.EntryID("").Prefix() + p.at.ID)
}
