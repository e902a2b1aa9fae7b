package entries

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"atrium"
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

// Moves returns up to limit moves, sorted by identifier, highest first, after a position, nil for
// the first page. more reports whether others follow.
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

// MovesByID returns those moves that exist, by identifier.
func MovesByID(tx engine.Tx, tenant atrium.TenantID, ids []atrium.MoveID) (moves []atrium.Move, err error) {
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	}
	_, err = tx.Batch(movesByID, rows, func(r engine.Row) error {
		moves = append(moves, scanMove(r, tenant))
		return nil
	})
	slices.SortFunc(moves, func(a, b atrium.Move) int { return cmp.Compare(a.ID, b.ID) })
	return moves, err
}

func errSameAccount() error {
	return atrium.Errorf(atrium.CodeConflict, "It is in that account already. Entries are moved to another one.")
}

// MoveEntry moves an entry to the account that to leads to. It first calls check with the current
// entry, and returns its error. It returns NotFound if the entry or the account does not exist,
// and Conflict if the entry is already in that account.
func (s *Store) MoveEntry(ctx context.Context, c atrium.Change, id atrium.EntryID, to atrium.AccountID, check func(atrium.TimelineEntry) error) (atrium.Move, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (m atrium.Move, err error) {
		if err := tx.CountSize(tx.Query, "SELECT "+rowBytes+" FROM entries e WHERE tenant_id = $1 AND entry_id = $2",
			engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}); err != nil {
			return m, err
		}
		var entry atrium.TimelineEntry
		var storedIn atrium.AccountID
		if err := engine.Find(tx.Query, selectTimelineEntry, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)},
			func(r engine.Row) { entry, storedIn = scanTimelineEntry(r, c.TenantID) }); err != nil {
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
		// The size is left out: CountSize has counted it.
		found, err := relocate(tx, &m, []matchedEntry{{position: *atrium.PositionAt(entry.CreatedAt, id), account: storedIn}})
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

// Move moves the entries that match the request, newest first, from an account and all accounts
// merged into it. It uses one transaction, and searches and moves a limited number of entries and
// bytes; the report contains the position to continue after. Entries that are moved concurrently are
// skipped. It returns NotFound if one of the accounts does not exist, and Conflict if they are the same.
func (s *Store) Move(ctx context.Context, c atrium.Change, request atrium.MoveRequest) (atrium.MoveReport, bool, error) {
	report, replayed, err := s.moveWithoutRule(ctx, c, request)
	if err == nil && report.Move != nil {
		err = s.setRule(ctx, report.Move, request.Rule.Given, replayed)
	}
	return report, replayed, err
}

// setRule sets the rule of a move that was returned by a change. Stored results contain no rules,
// so that an erasure has to delete a rule in one place only: a replay reads what is left of it.
func (s *Store) setRule(ctx context.Context, m *atrium.Move, rule []byte, replayed bool) error {
	if m.Rule = rule; !replayed {
		return nil
	}
	now, err := s.FindMove(ctx, m.TenantID, m.ID)
	m.Rule = now.Rule
	return err
}

// moveWithoutRule is Move, but leaves out the rule.
func (s *Store) moveWithoutRule(ctx context.Context, c atrium.Change, request atrium.MoveRequest) (atrium.MoveReport, bool, error) {
	if report, replayed, err := kernel.StoredResult[atrium.MoveReport](ctx, s.db, c); err != nil || replayed {
		return report, replayed, err
	}
	matching, next, err := s.match(ctx, c.TenantID, &request)
	if err != nil {
		// A concurrent request with the same key may have moved the entries and caused this error.
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
		from, to, err := findSurvivors(tx, c.TenantID, request.From, request.To)
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

// ruleDetail returns a rule for the audit log. Payload values are replaced with their hash.
func ruleDetail(r *atrium.MoveRule) map[string]any {
	claims := kernel.Fields{}
	if r.Source != "" {
		claims["source"] = r.Source
	}
	if r.Type != "" {
		claims["type"] = r.Type
	}
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

// CheckMove returns the report that Move would return, but moves nothing.
func (s *Store) CheckMove(ctx context.Context, tenant atrium.TenantID, request atrium.MoveRequest) (atrium.MoveReport, error) {
	matching, next, err := s.match(ctx, tenant, &request)
	return atrium.MoveReport{Moved: int64(len(matching)), Next: next}, err
}

// maxMoveBytes limits the rows of the entries that a move finds, unless the first has more.
const maxMoveBytes = 4 << 20

// match returns the entries that match a request, up to its limit. If request.From is empty, it
// sets it to the unattributed account. It locks nothing, because claims and payloads never change.
func (s *Store) match(ctx context.Context, tenant atrium.TenantID, request *atrium.MoveRequest) (matching []matchedEntry, next *atrium.Position, err error) {
	rule, err := newMatcher(&request.Rule)
	if err != nil {
		return nil, nil, err
	}
	given := request.From
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		matching, next = nil, nil
		if request.From = given; given == "" {
			request.From, err = accounts.FindUnattributed(tx, tenant)
			if errors.Is(err, engine.ErrNoRow) {
				_, err = accounts.FindSurvivor(tx, tenant, request.To)
				return err
			}
			if err != nil {
				return err
			}
		}
		from, _, err := findSurvivors(tx, tenant, request.From, request.To)
		if err != nil {
			return err
		}
		group, err := accounts.GroupIDs(tx.Query, tenant, from)
		if err != nil {
			return err
		}
		it := newEntryIterator(tx, tenant, group, &atrium.TimelineFilter{}, request.After, maxChunk,
			claimedColumns+rowBytes, scanClaimed)
		matching, next, err = rule.search(it, request.Limit, maxMoveBytes)
		return err
	})
	return matching, next, err
}

// findSurvivors returns the accounts that two accounts lead to, or Conflict if they are the same.
func findSurvivors(tx engine.Tx, tenant atrium.TenantID, from, to atrium.AccountID) (fromSurvivor, toSurvivor atrium.AccountID, err error) {
	if toSurvivor, err = accounts.FindSurvivor(tx, tenant, to); err != nil {
		return "", "", err
	}
	if fromSurvivor, err = accounts.FindSurvivor(tx, tenant, from); err == nil && fromSurvivor == toSurvivor {
		err = errSameAccount()
	}
	return fromSurvivor, toSurvivor, err
}
