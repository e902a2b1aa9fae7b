package records

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/erasures"
	"atrium/internal/store/kernel"
	"atrium/internal/store/receivers"
)

// An export of a person reads what an erasure by the same request would delete. It finds few records
// among many, so it may run for long. It therefore reads no snapshot, but a bounded part of the tables at
// a time, as the erasure does.

// Limits of one read.
const (
	personEntries    = 500 // and bytes, as for a move; it compares more
	personProspects  = 20  // with their links
	personDeliveries = 100 // in quarantine
	personHistory    = 100 // moves of each of these entries
)

// maxPersonMoves is the number of moves to which a moveSet is cut when it has twice as many. Tests set it.
var maxPersonMoves = 20_000

// BeginPersonExport records in the audit log that an export of a person begins. It returns NotFound if
// the account does not exist.
func (s *Store) BeginPersonExport(ctx context.Context, c atrium.Change, request atrium.ErasureRequest) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		detail := map[string]any{"conditions": request.Rule.Conditions()}
		if request.AccountID != "" {
			if detail["accountId"], err = accounts.FindSurvivor(tx, c.TenantID, request.AccountID); err != nil {
				return none, err
			}
		}
		tx.RecordDetail("person.export", string(c.TenantID), detail)
		return none, nil
	})
	return kernel.Public(err)
}

// CompletePersonExport records in the audit log that an export of a person has been sent.
func (s *Store) CompletePersonExport(ctx context.Context, c atrium.Change, done atrium.PersonExport) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		tx.RecordDetail("person.export.complete", string(c.TenantID), map[string]any{
			"prospects": done.Prospects, "accountLogs": done.Entries, "moves": done.Moves, "auditRecords": done.AuditRecords,
			"quarantined": done.Quarantined,
		})
		return none, nil
	})
	return kernel.Public(err)
}

// ExportPerson calls emit with everything that an erasure by the request would delete: prospects by
// identifier, each followed by the audit rows about it; entries, as by entries.Search; and moves with
// their rules by identifier, each followed by the audit rows about it; and deliveries in quarantine, oldest first. It emits no entry that was stored
// after it began; prospects, moves and audit rows that are added while it runs may be included. Records
// that are changed, moved or deleted while it runs may be missing.
//
// It ends however fast entries are appended. It has at most about 4 MiB of records, or one record, and the
// identifiers of 2*maxPersonMoves moves in memory. No transaction is open while emit or yield runs. It
// calls yield after each read.
func (s *Store) ExportPerson(ctx context.Context, tenant atrium.TenantID, request atrium.ErasureRequest, emit func(Record) error, yield func() error,
) (done atrium.PersonExport, err error) {
	x := &personExporter{request: request, found: newMoveSet("")}
	x.exporter = exporter{ctx: ctx, db: s.db.Engine, tenant: tenant, emit: func(r Record) error {
		switch r.(type) {
		case *atrium.LinkedProspect:
			done.Prospects++
		case *atrium.Entry:
			done.Entries++
		case *atrium.Move:
			done.Moves++
		case *atrium.AuditRow:
			done.AuditRecords++
		case *atrium.QuarantinedDelivery:
			done.Quarantined++
		}
		return emit(r)
	}, afterRead: func() error {
		if err := s.db.RequireTenant(ctx, tenant); err != nil {
			return err
		}
		return yield()
	}}
	for _, part := range []func() error{x.begin, x.prospects, x.entries, x.moves, x.quarantine} {
		if err := part(); err != nil {
			return done, kernel.Public(err)
		}
	}
	return done, nil
}

// A personExporter is one run of ExportPerson.
type personExporter struct {
	exporter
	request atrium.ErasureRequest
	found   *moveSet // of entries
}

// read runs a read, in which the account may not exist.
func (x *personExporter) read(f func(engine.Tx) error) error {
	if err := x.db.Read(x.ctx, f); err != nil && !errors.Is(err, engine.ErrNoRow) {
		return err
	}
	return x.afterRead()
}

func (x *personExporter) prospects() error {
	if x.request.Rule.ProspectEmail == "" {
		return nil
	}
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		var found []*atrium.LinkedProspect
		from := after
		if err := x.read(func(tx engine.Tx) error {
			found, after = nil, nil
			ids, next, err := erasures.FindProspects(tx, x.tenant, x.request.AccountID, x.request.Rule.ProspectEmail, from, personProspects)
			if err != nil {
				return err
			}
			after = next
			found, err = x.readProspects(tx, ids)
			return err
		}); err != nil {
			return err
		}
		for _, p := range found {
			if err := x.emitAudited(p, string(p.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *personExporter) quarantine() error {
	m := receivers.NewMatcher(&x.request)
	if m == nil {
		return nil
	}
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		var found []atrium.QuarantinedDelivery
		from := after
		if err := x.read(func(tx engine.Tx) (err error) {
			found, after, err = m.Find(tx, x.tenant, from, personDeliveries)
			return err
		}); err != nil {
			return err
		}
		for i := range found {
			if err := x.emit(&found[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *personExporter) readProspects(tx engine.Tx, ids []atrium.ProspectID) (found []*atrium.LinkedProspect, err error) {
	rows, byID := make([]engine.Args, len(ids)), map[atrium.ProspectID]*atrium.LinkedProspect{}
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(x.tenant), kernel.IDArg(id)}
	}
	if _, err := tx.Batch(accounts.ProspectsByID, rows, func(r engine.Row) error {
		p := &atrium.LinkedProspect{Prospect: accounts.ScanProspect(r, 0, x.tenant)}
		byID[p.ID] = p
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := tx.Batch(linksOfProspects, rows, func(r engine.Row) error {
		p := byID[kernel.IDAt[atrium.ProspectID](r, 0)]
		p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 1))
		return nil
	}); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		slices.Sort(byID[id].AccountIDs)
		found = append(found, byID[id])
	}
	return found, nil
}

// emitAudited emits a record, and then the audit rows about it that an erasure would redact.
func (x *personExporter) emitAudited(r Record, id string) error {
	if err := x.emit(r); err != nil {
		return err
	}
	number := int64(0)
	return x.each(func(tx engine.Tx, c *chunk) error {
		return erasures.FindDetails(tx.Query, x.tenant, kernel.AuditColumns, id, number, c.limit, func(r engine.Row) error {
			number = r.Int(0)
			return c.add(r, func(r engine.Row) Record {
				row := kernel.ScanAudit(r)
				return &row
			})
		})
	})
}

func (x *personExporter) entries() error {
	return x.eachPage(func(page []*atrium.Entry) error {
		for _, e := range page {
			if err := x.emit(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachPage calls use with the entries that the rule selects, page by page, and adds the moves of each
// page to found.
func (x *personExporter) eachPage(use func([]*atrium.Entry) error) error {
	if !x.request.Rule.HasEntries() {
		return nil
	}
	search, err := entries.NewSearch(&x.request.Rule)
	if err != nil {
		return err
	}
	for after, more := (*atrium.Position)(nil), true; more; more = after != nil {
		var page []*atrium.Entry
		var last []entryMove
		from := after
		if err := x.read(func(tx engine.Tx) error {
			page, last, after = nil, nil, nil
			found, next, err := search.Find(tx, x.tenant, x.request.AccountID, from, personEntries)
			if err != nil {
				return err
			}
			after = next
			page, last, err = x.readEntries(tx, found)
			return err
		}); err != nil {
			return err
		}
		if err := use(page); err != nil {
			return err
		}
		if err := x.addMoves(last); err != nil {
			return err
		}
	}
	return nil
}

// An entryMove is a move of an entry.
type entryMove struct {
	entry atrium.EntryID
	move  atrium.MoveID
}

var entriesToExport = engine.NewBatch("SELECT "+entries.EntryColumns+`, e.move_id
	FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.id
	JOIN accounts a ON a.tenant_id = e.tenant_id AND a.account_id = e.account_id AND `+accounts.NotErased, "tenant_id bytea", "id bytea")

// readEntries returns entries in their order, and their last moves, without those that were stored after
// the export began and those of erased accounts.
func (x *personExporter) readEntries(tx engine.Tx, found []entries.Found) (page []*atrium.Entry, last []entryMove, err error) {
	var rows []engine.Args
	at := map[atrium.EntryID]int{}
	for i := range found {
		if id := kernel.PackID(found[i].At.ID); bytes.Compare(id, x.lastEntry) <= 0 {
			rows, at[found[i].EntryID] = append(rows, engine.Args{kernel.IDArg(x.tenant), id}), i
		}
	}
	_, err = tx.Batch(entriesToExport, rows, func(r engine.Row) error {
		e := entries.ScanEntry(r, x.tenant)
		if move := kernel.IDAt[atrium.MoveID](r, entries.EntryColumnsLen); move != "" {
			last = append(last, entryMove{e.ID, move})
		}
		page = append(page, &e)
		return nil
	})
	slices.SortFunc(page, func(a, b *atrium.Entry) int { return at[a.ID] - at[b.ID] })
	return page, last, err
}

var moveHistory = engine.NewBatch(`SELECT x.entry_id, x.previous_move_id, m.move_id FROM batch
	JOIN moved_entries x ON x.tenant_id = batch.tenant_id AND x.move_id = batch.move_id AND x.entry_id = batch.entry_id
	LEFT JOIN moves m ON m.tenant_id = x.tenant_id AND m.move_id = x.move_id AND m.rule IS NOT NULL`,
	"tenant_id bytea", "move_id bytea", "entry_id bytea")

// addMoves adds to found the moves with rules that have moved entries, given the last move of each.
func (x *personExporter) addMoves(last []entryMove) error {
	for len(last) > 0 {
		var ruled []atrium.MoveID
		next := last
		if err := x.read(func(tx engine.Tx) error {
			next, ruled = last, nil
			for range personHistory {
				rows := make([]engine.Args, len(next))
				for i, m := range next {
					rows[i] = engine.Args{kernel.IDArg(x.tenant), kernel.IDArg(m.move), kernel.IDArg(m.entry)}
				}
				next = nil
				if _, err := tx.Batch(moveHistory, rows, func(r engine.Row) error {
					if !r.Null(2) {
						ruled = append(ruled, kernel.IDAt[atrium.MoveID](r, 2))
					}
					if !r.Null(1) {
						next = append(next, entryMove{kernel.IDAt[atrium.EntryID](r, 0), kernel.IDAt[atrium.MoveID](r, 1)})
					}
					return nil
				}); err != nil || len(next) == 0 {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		last = next
		for _, id := range ruled {
			x.found.add(id)
		}
	}
	return nil
}

// moves emits the moves of found and those whose rules contain a value of the rule. If found is not
// complete, it searches the entries again for the other moves.
func (x *personExporter) moves() error {
	for {
		if err := x.emitMoves(); err != nil || x.found.last == "" {
			return err
		}
		x.found = newMoveSet(x.found.last)
		if err := x.eachPage(func([]*atrium.Entry) error { return nil }); err != nil {
			return err
		}
	}
}

// emitMoves emits the moves in the range of found.
func (x *personExporter) emitMoves() error {
	var after *atrium.Position
	if x.found.after != "" {
		after = atrium.PositionAt(0, x.found.after)
	}
	for more := true; more; more = after != nil {
		var page []atrium.Move
		from := after
		if err := x.read(func(tx engine.Tx) error {
			page, after = nil, nil
			ids, next, err := erasures.FindRules(tx, x.tenant, &x.request.Rule, x.found.has, from)
			if err != nil {
				return err
			}
			after = next
			page, err = entries.MovesByID(tx, x.tenant, ids)
			return err
		}); err != nil {
			return err
		}
		for i := range page {
			if x.found.last != "" && page[i].ID > x.found.last {
				return nil
			}
			if err := x.emitAudited(&page[i], string(page[i].ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A moveSet has moves of a range of identifiers: all that were added, or if these are too many, those
// with the lowest identifiers.
type moveSet struct {
	ids   map[atrium.MoveID]bool
	after atrium.MoveID // the range begins after it; "" at the first move
	last  atrium.MoveID // the end of the range; "" if all moves after the beginning are in it
}

func newMoveSet(after atrium.MoveID) *moveSet {
	return &moveSet{ids: map[atrium.MoveID]bool{}, after: after}
}

func (s *moveSet) has(id atrium.MoveID) bool { return s.ids[id] }

func (s *moveSet) add(id atrium.MoveID) {
	if id <= s.after || s.last != "" && id > s.last {
		return
	}
	if s.ids[id] = true; len(s.ids) < 2*maxPersonMoves {
		return
	}
	lowest := slices.Sorted(maps.Keys(s.ids))[:maxPersonMoves]
	clear(s.ids)
	for _, id := range lowest {
		s.ids[id] = true
	}
	s.last = lowest[maxPersonMoves-1]
}
