package entries

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Limits of what one request reads.
const (
	timelineLimit = 1000   // entries, including those that the filter skips
	countLimit    = 10_000 // entries to count
)

// These columns follow created_at, entry_id and account_id, which an entryIterator selects first.
const timelineColumns = `e.source, e.type, e.claimed_account_id, e.claimed_domain, e.claimed_name, e.idempotency_key,
	e.acknowledged_account_id, e.occurred_at, e.move_id, octet_length(e.payload), ` + originColumns

// listedTimeline is timelineColumns for lists, where a long claimed domain is left out.
var listedTimeline = strings.Replace(timelineColumns, "e.claimed_domain", kernel.InlineOrNull("e.claimed_domain"), 1) +
	", " + kernel.OctetLength("e.claimed_domain")

// afterTimeline is the column that follows timelineColumns.
const afterTimeline = 16

// scanTimeline reads created_at, entry_id, account_id and timelineColumns. shown is the account that
// the entry is shown under, "" for the one that stores it.
func scanTimeline(r engine.Row, tenant atrium.TenantID, shown atrium.AccountID) atrium.TimelineEntry {
	storedIn := kernel.IDAt[atrium.AccountID](r, 2)
	shown = cmp.Or(shown, storedIn)
	e := atrium.TimelineEntry{
		Entry: atrium.Entry{
			CreatedAt: atrium.Time(r.Int(0)), ID: kernel.IDAt[atrium.EntryID](r, 1), TenantID: tenant,
			AccountID: shown, AcknowledgedID: cmp.Or(kernel.IDAt[atrium.AccountID](r, 9), storedIn),
			Submission: atrium.Submission{
				Source: r.Text(3), Type: r.Text(4),
				Claim:          atrium.Claim{AccountID: kernel.IDAt[atrium.AccountID](r, 5), Domain: r.Text(6), Name: r.Text(7)},
				IdempotencyKey: r.Text(8), OccurredAt: kernel.TimeAt(r, 10),
			},
		},
		MoveID: kernel.IDAt[atrium.MoveID](r, 11), PayloadBytes: r.Int(12), Origin: scanOrigin(r, 13),
	}
	if e.AcknowledgedID == shown {
		e.AcknowledgedID = ""
	}
	return e
}

// A listedEntry is an entry of a list. A long claimed domain is left out, as are payloads that are long or not read
// with their rows.
type listedEntry struct {
	atrium.TimelineEntry
	bytes       int // of its texts, including the complete domain
	domainBytes int
}

func (e *listedEntry) domainOmitted() bool { return e.domainBytes > len(e.Claim.Domain) }

// Timeline returns a page of up to limit entries of an account and of all accounts merged into it,
// newest first, after a position, nil for the first page. It returns payloads if requested. next
// is the position to continue after, nil at the end. A page may be short, or even empty, before
// the end: it reads at most timelineLimit entries, and ends with the entry that reaches
// kernel.ListBytes. It returns NotFound if there is no such account.
func (s *Store) Timeline(ctx context.Context, tenant atrium.TenantID, account atrium.AccountID, f atrium.TimelineFilter,
	after *atrium.Position, limit int, payloads bool,
) (entries []atrium.TimelineEntry, next *atrium.Position, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		survivor, group, err := accounts.FindGroupIDs(tx, tenant, account)
		if err != nil {
			return err
		}
		columns, inline := listedTimeline, payloads && f.Source == "" && f.Type == "" // no entry is skipped
		if inline {
			columns += ", " + kernel.InlineOrNull("e.payload")
		}
		it := newEntryIterator(tx, tenant, group, &f, after, limit+1, columns, func(r engine.Row) listedEntry {
			w := &kernel.SizedRow{Row: r}
			e := listedEntry{TimelineEntry: scanTimeline(w, tenant, survivor), domainBytes: int(r.Int(afterTimeline))}
			e.bytes = w.Size - len(e.Claim.Domain) + e.domainBytes
			if inline {
				e.Payload = r.Bytes(afterTimeline + 1)
			}
			return e
		})
		var found []listedEntry
		if found, next, err = timelinePage(it, &f, after, limit, payloads); err != nil {
			return err
		}
		entries, err = completeEntries(tx, tenant, found, payloads)
		return err
	})
	return entries, next, err
}

// timelinePage reads one page from an iterator.
func timelinePage(it *entryIterator[listedEntry], f *atrium.TimelineFilter, last *atrium.Position, limit int, payloads bool,
) (entries []listedEntry, next *atrium.Position, err error) {
	bytes := 0
	for scanned := 0; ; scanned++ {
		p, err := it.next()
		if err != nil || p == nil {
			return entries, nil, err
		}
		if scanned == timelineLimit || len(entries) == limit || bytes >= kernel.ListBytes {
			return entries, last, nil
		}
		if last = &p.position; !f.Has(p.value.Source, p.value.Type) {
			continue
		}
		entries = append(entries, p.value)
		if bytes += p.value.bytes; payloads {
			bytes += int(p.value.PayloadBytes)
		}
	}
}

var (
	findPayloads = engine.NewBatch(`SELECT e.entry_id, e.payload
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea")
	findClaimedDomains = engine.NewBatch(`SELECT e.entry_id, e.claimed_domain
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`,
		"tenant_id bytea", "entry_id bytea")
)

// completeEntries returns entries with the domains that were left out, and with all payloads if
// requested.
func completeEntries(tx engine.Tx, tenant atrium.TenantID, found []listedEntry, payloads bool) ([]atrium.TimelineEntry, error) {
	entries := make([]atrium.TimelineEntry, len(found))
	var toRead []atrium.EntryID
	for i := range found {
		if entries[i] = found[i].TimelineEntry; found[i].domainOmitted() {
			toRead = append(toRead, entries[i].ID)
		}
	}
	domains, err := readColumn(tx, tenant, findClaimedDomains, toRead)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if e := &entries[i]; found[i].domainOmitted() {
			e.Claim.Domain = string(domains[e.ID])
		}
	}
	if payloads {
		err = addPayloads(tx, tenant, entries)
	}
	return entries, err
}

// readColumn returns a column of those of the entries that exist.
func readColumn(tx engine.Tx, tenant atrium.TenantID, batch *engine.Batch, ids []atrium.EntryID) (map[atrium.EntryID][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows := make([]engine.Args, len(ids))
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	}
	found := make(map[atrium.EntryID][]byte, len(ids))
	_, err := tx.Batch(batch, rows, func(r engine.Row) error {
		found[kernel.IDAt[atrium.EntryID](r, 0)] = r.Bytes(1)
		return nil
	})
	return found, err
}

// TimelineEntry returns an entry with its payload. It returns NotFound if there is no such entry,
// or if its account was erased.
func (s *Store) TimelineEntry(ctx context.Context, tenant atrium.TenantID, id atrium.EntryID) (e atrium.TimelineEntry, err error) {
	err = s.db.Find(ctx, selectTimelineEntry, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { e, _ = scanTimelineEntry(r, tenant) })
	return e, err
}

const selectTimelineEntry = "SELECT e.created_at, e.entry_id, e.account_id, " + timelineColumns + `, a.survivor_id, e.payload
	FROM entries e JOIN accounts a ON a.tenant_id = e.tenant_id AND a.account_id = e.account_id
	WHERE e.tenant_id = $1 AND e.entry_id = $2 AND ` + accounts.NotErased

// scanTimelineEntry reads a row of selectTimelineEntry. It also returns the account that stores
// the entry.
func scanTimelineEntry(r engine.Row, tenant atrium.TenantID) (atrium.TimelineEntry, atrium.AccountID) {
	e := scanTimeline(r, tenant, kernel.IDAt[atrium.AccountID](r, afterTimeline))
	e.Payload = r.Bytes(afterTimeline + 1)
	return e, kernel.IDAt[atrium.AccountID](r, 2)
}

// A dayKey groups entries for counting.
type dayKey struct {
	day          int64
	source, kind string
}

const dayMicros = 24 * 60 * 60 * 1_000_000

// Counts counts the entries of an account and of all accounts merged into it by day, source and
// type. Counts are sorted by day, newest first, and then by source and type, bytewise. One call
// reads at most countLimit entries, newest first, after a position, nil for the first page, and
// returns up to limit counts. next is the position to continue after, nil at the end. If a page
// ends within a day, the next page continues that day, and the caller must add up the counts. It
// returns NotFound if there is no such account.
func (s *Store) Counts(ctx context.Context, tenant atrium.TenantID, account atrium.AccountID, f atrium.TimelineFilter,
	after *atrium.Position, limit int,
) (counts []atrium.DayCount, next *atrium.Position, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		counts, next = nil, nil
		_, group, err := accounts.FindGroupIDs(tx, tenant, account)
		if err != nil {
			return err
		}
		it := newEntryIterator(tx, tenant, group, &f, after, countLimit+1, "e.source, e.type", func(r engine.Row) dayKey {
			return dayKey{startOfDay(r.Int(0)), r.Text(3), r.Text(4)}
		})
		found, last := map[dayKey]int64{}, after
		for scanned := 0; ; scanned++ {
			p, err := it.next()
			if err != nil {
				return err
			}
			if p == nil {
				break
			}
			wanted := f.Has(p.value.source, p.value.kind)
			if scanned == countLimit || wanted && len(found) == limit && found[p.value] == 0 {
				next = last
				break
			}
			if last = &p.position; wanted {
				found[p.value]++
			}
		}
		counts = dayCounts(found)
		return nil
	})
	return counts, next, err
}

// startOfDay returns the start of the day of an instant, which may be before 1970.
func startOfDay(at int64) int64 {
	day := at - at%dayMicros
	if day > at {
		day -= dayMicros
	}
	return day
}

func dayCounts(found map[dayKey]int64) []atrium.DayCount {
	counts := make([]atrium.DayCount, 0, len(found))
	for k, n := range found {
		counts = append(counts, atrium.DayCount{Day: atrium.Time(k.day), Source: k.source, Type: k.kind, Count: n})
	}
	slices.SortFunc(counts, func(a, b atrium.DayCount) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day), strings.Compare(a.Source, b.Source), strings.Compare(a.Type, b.Type))
	})
	return counts
}
