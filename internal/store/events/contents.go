package events

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
)

// This file reads the contents of events: entries, and audit records. Neither changes, except that their
// contents are erased. Nothing else is read, so an event is the same whenever it is read.

var (
	// Long claims are NULL: those events are read one by one.
	findEntries = selectEntries(strings.NewReplacer("e.claimed_domain", ifShort("e.claimed_domain"), "e.claimed_name", ifShort("e.claimed_name")).
			Replace(entries.EntryColumns))
	findLongEntry = selectEntries(entries.EntryColumns)
	findAudit     = engine.NewBatch("SELECT "+kernel.AuditColumns+` FROM batch JOIN audit a
		ON a.tenant_id = batch.tenant_id AND a.number = batch.record`, "tenant_id bytea", "record bigint")
	findErasures = engine.NewBatch(`SELECT x.account_id FROM batch JOIN erasures x
		ON x.tenant_id = batch.tenant_id AND x.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")
)

// maxClaim is the length in bytes up to which a domain or name that an entry claims is read with others.
const maxClaim = 4 << 10

func ifShort(column string) string {
	return "CASE WHEN octet_length(" + column + ") <= " + strconv.Itoa(maxClaim) + " THEN " + column + " END"
}

// selectEntries returns a statement that reads entries by their identifiers. A payload that an event does not contain is
// not read, and NULL. The first column after the entry is not null if its account is being erased, and the second one is the
// length of the longer one of its claims.
func selectEntries(columns string) *engine.Batch {
	return engine.NewBatch("SELECT "+strings.TrimSuffix(columns, "e.payload")+
		"CASE WHEN octet_length(e.payload) <= "+strconv.Itoa(atrium.MaxEventPayload)+` THEN e.payload END,
		(SELECT 1 FROM erasures x WHERE x.tenant_id = batch.tenant_id AND x.account_id = e.account_id),
		CASE WHEN COALESCE(octet_length(e.claimed_domain), 0) >= COALESCE(octet_length(e.claimed_name), 0)
			THEN COALESCE(octet_length(e.claimed_domain), 0) ELSE octet_length(e.claimed_name) END
		FROM batch JOIN entries e ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.id`, "tenant_id bytea", "id bytea")
}

// contents are the entries and audit records that events are about.
type contents struct {
	entries map[atrium.EntryID]*atrium.Entry // without those that are erased
	audit   map[int64]*atrium.AuditRow
	erasing map[atrium.AccountID]bool // accounts whose records are not all redacted yet
	long    map[atrium.EntryID]bool   // entries with a claim that was not read
	bytes   int                       // approximate memory use
}

// read reads the entries and audit records of events. It leaves out claims longer than maxClaim, unless there is only one
// event.
func read(tx engine.Tx, tenant atrium.TenantID, events []eventRef) (c contents, err error) {
	c = contents{
		entries: map[atrium.EntryID]*atrium.Entry{}, audit: map[int64]*atrium.AuditRow{}, erasing: map[atrium.AccountID]bool{}, long: map[atrium.EntryID]bool{},
	}
	find, most := findEntries, int64(maxClaim)
	if len(events) == 1 {
		find, most = findLongEntry, math.MaxInt64
	}
	ids, numbers := map[atrium.EntryID]bool{}, map[int64]bool{}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case atrium.EventKeyAudit:
			numbers[e.Number] = true
		case atrium.EventKeyEntry, atrium.EventKeyAccount:
			ids[e.Entry] = true
		}
	}
	var rows []engine.Args
	for id := range ids {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)})
	}
	if _, err := tx.Batch(find, rows, func(r engine.Row) error {
		if e := entries.ScanEntry(r, tenant); r.Null(entries.EntryColumnsLen) {
			c.entries[e.ID] = &e
			c.long[e.ID] = r.Int(entries.EntryColumnsLen+1) > most
			c.bytes += len(e.Payload) + len(e.Claim.Domain) + len(e.Claim.Name)
		}
		return nil
	}); err != nil {
		return c, fmt.Errorf("find the entries of events: %w", err)
	}
	return c, c.readAudit(tx, tenant, numbers)
}

// readAudit reads audit records.
func (c *contents) readAudit(tx engine.Tx, tenant atrium.TenantID, numbers map[int64]bool) error {
	var rows, accounts []engine.Args
	for number := range numbers {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), number})
	}
	if _, err := tx.Batch(findAudit, rows, func(r engine.Row) error {
		row := kernel.ScanAudit(r)
		c.audit[row.Number] = &row
		c.bytes += len(row.Detail)
		if id, ok := atrium.ParseID[atrium.AccountID](row.Subject); ok {
			accounts = append(accounts, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)})
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find the audit records of events: %w", err)
	}
	if _, err := tx.Batch(findErasures, accounts, func(r engine.Row) error {
		c.erasing[kernel.IDAt[atrium.AccountID](r, 0)] = true
		return nil
	}); err != nil {
		return fmt.Errorf("find the erasures of events: %w", err)
	}
	return nil
}

// load returns the first of the given events with their contents. It stops after the loadedEvents that reach maxReadBytes, and
// before an event with long claims, which it returns only alone.
func load(tx engine.Tx, tenant atrium.TenantID, found []eventRef) (events []atrium.Event, err error) {
	bytes := 0
	for some := range slices.Chunk(found, loadedEvents) {
		c, err := read(tx, tenant, some)
		if err != nil {
			return nil, err
		}
		for i := range some {
			switch long := c.long[some[i].Entry]; {
			case long && len(events) > 0:
				return events, nil
			case long:
				if c, err = read(tx, tenant, found[:1]); err != nil {
					return nil, err
				}
				return append(events, c.event(tenant, &found[0])), nil
			}
			events = append(events, c.event(tenant, &some[i]))
		}
		if bytes += c.bytes; bytes >= maxReadBytes {
			break
		}
	}
	return events, nil
}

// event returns an event with its contents.
func (c *contents) event(tenant atrium.TenantID, l *eventRef) atrium.Event {
	e := atrium.Event{
		ID: l.ID(tenant), TenantID: tenant, Position: l.position, At: l.at, AccountID: l.Account, EntryID: l.Entry,
	}
	entry := c.entries[l.Entry]
	switch l.Kind {
	case atrium.EventKeyEntry:
		e.Type, e.Erased = atrium.EventEntryCreated, entry == nil
		if entry != nil {
			acknowledged := *entry
			acknowledged.AccountID, acknowledged.AcknowledgedID = l.Account, ""
			e.Entry = &acknowledged
		}
	case atrium.EventKeyAccount:
		e.Type, e.Erased = atrium.EventAccountCreated, entry == nil
		if entry != nil {
			e.Account = createdBy(entry)
		}
	case atrium.EventKeyErased:
		e.Type = atrium.EventEntryErased
	case atrium.EventKeyAudit:
		c.describe(&e, c.audit[l.Number])
	}
	return e
}

// createdBy returns the account that was created for an entry, from its claim.
func createdBy(entry *atrium.Entry) *atrium.CreatedAccount {
	domain := ""
	if entry.Claim.Domain != "" {
		domain = canonical.Domain(entry.Claim.Domain)
	}
	if domain = cmp.Or(domain, atrium.UnattributedDomain); domain == atrium.UnattributedDomain {
		return &atrium.CreatedAccount{Domain: domain}
	}
	return &atrium.CreatedAccount{Domain: domain, Name: entry.Claim.Name}
}

// describe completes an event about an audit record. row is nil if the record is not stored.
func (c *contents) describe(e *atrium.Event, row *atrium.AuditRow) {
	if row == nil {
		e.Erased = true
		return
	}
	e.Type, e.At = atrium.EventOf(row.Action), row.At
	if id, ok := atrium.ParseID[atrium.AccountID](row.Subject); ok {
		e.AccountID = id
	}
	if id, ok := atrium.ParseID[atrium.EntryID](row.Subject); ok { // the move of one entry
		e.EntryID = id
	}
	if e.Erased = row.Redacted() || c.erasing[e.AccountID] && row.Action != atrium.ActionEraseAccount; !e.Erased {
		e.Audit = row
	}
}
