package atrium

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// An EventType is what an Event reports.
type EventType string

// The types of events.
const (
	EventEntryCreated     EventType = "account_log.created"
	EventEntryErased      EventType = "account_log.erased" // by the erasure of a person or an account, not by a retention rule
	EventAccountCreated   EventType = "account.created"
	EventAccountUpdated   EventType = "account.updated"
	EventAccountMerged    EventType = "account.merged"
	EventAccountSplit     EventType = "account.split"
	EventAccountErased    EventType = "account.erased"
	EventMoveCompleted    EventType = "move.completed"
	EventPageCreated      EventType = "page.created"
	EventPageUpdated      EventType = "page.updated"
	EventPagePublished    EventType = "page.published"
	EventPageUnpublished  EventType = "page.unpublished"
	EventPageArchived     EventType = "page.archived"
	EventVersionCreated   EventType = "audience.version.created"
	EventVersionPublished EventType = "audience.version.published"
	EventKeyExpiring      EventType = "key.expiring" // KeyExpiryNotice before it expires
	EventWebhookDisabled  EventType = "webhook.disabled"
	EventWebhookExhausted EventType = "webhook.exhausted"
	EventWebhookTest      EventType = "webhook.test"
)

// EventTypes returns all types of events.
func EventTypes() []EventType {
	return []EventType{
		EventEntryCreated, EventEntryErased, EventAccountCreated, EventAccountUpdated, EventAccountMerged, EventAccountSplit, EventAccountErased,
		EventMoveCompleted, EventPageCreated, EventPageUpdated, EventPagePublished, EventPageUnpublished, EventPageArchived,
		EventVersionCreated, EventVersionPublished, EventKeyExpiring, EventWebhookDisabled, EventWebhookExhausted, EventWebhookTest,
	}
}

// EventOf returns the type of the event that an audit record with the action is reported as, "" for none.
func EventOf(action string) EventType { return eventsOfActions[action] }

// Actions that only events are about.
const (
	ActionKeyExpiring      = "key.expiring"
	ActionWebhookDisabled  = "webhook.disabled" // by Atrium, because of its failures or a response with 410
	ActionWebhookExhausted = "webhook.exhausted"
	ActionWebhookTest      = "webhook.test"
)

var eventsOfActions = map[string]EventType{
	"account.create":       EventAccountCreated,
	"account.update":       EventAccountUpdated,
	"account.merge":        EventAccountMerged,
	"account.split":        EventAccountSplit,
	ActionEraseAccount:     EventAccountErased,
	"account_log.move":     EventMoveCompleted,
	"move.create":          EventMoveCompleted,
	"move.undo":            EventMoveCompleted,
	"page.create":          EventPageCreated,
	"page.update":          EventPageUpdated,
	"page.delete":          EventPageUpdated,
	"page.undelete":        EventPageUpdated,
	"page.restore":         EventPageUpdated,
	"page.publish":         EventPagePublished,
	"page.unpublish":       EventPageUnpublished,
	"page.archive":         EventPageArchived,
	"version.create":       EventVersionCreated,
	"version.publish":      EventVersionPublished,
	ActionKeyExpiring:      EventKeyExpiring,
	ActionWebhookDisabled:  EventWebhookDisabled,
	ActionWebhookExhausted: EventWebhookExhausted,
	ActionWebhookTest:      EventWebhookTest,
}

// An Event is something that happened to the data of a tenant. Events are ordered by Position. Their contents
// never change, except that they are erased.
type Event struct {
	ID        EventID // derived from what it is about: see EventKey
	TenantID  TenantID
	Position  int64 // in the feed of the tenant: 1 for the first event, then consecutive
	Type      EventType
	At        Time      // when it happened; not in the order of positions
	AccountID AccountID // that it is about, at that time; "" for none
	EntryID   EntryID   // that it is about, or whose append created the account; "" for none

	// Of these, the one that the event was made from is set, unless Erased or EventEntryErased.
	Entry   *Entry          // EventEntryCreated; without a Payload that is larger than MaxEventPayload
	Account *CreatedAccount // EventAccountCreated by an append
	Audit   *AuditRow       // all others

	// Erased reports that the contents have been erased since, or have expired.
	Erased bool
}

// A CreatedAccount is an account as an append has created it.
type CreatedAccount struct {
	Domain string // canonical
	Name   string // "" if it had none
}

// An EventKey identifies what an event is about. The values are stored.
type EventKey byte

// The kinds of keys. Next to each is what the event is about.
const (
	EventKeyEntry   EventKey = 1 // an entry, by its identifier
	EventKeyErased  EventKey = 2 // an erased entry, by its identifier
	EventKeyAccount EventKey = 3 // an account that an append created, by its identifier
	EventKeyAudit   EventKey = 4 // an audit record, by AuditSubject
)

// AuditSubject returns the subject of EventKeyAudit for an audit record.
func AuditSubject(number int64) string { return fmt.Sprintf("audit/%d", number) }

// ID returns the identifier of an event of a tenant. It is the same for every delivery, replay and copy of
// the event: 128 bits of the SHA-256 of the kind, the tenant and the subject, each text after its length.
func (k EventKey) ID(tenant TenantID, subject string) EventID {
	b := []byte{byte(k)}
	for _, text := range []string{string(tenant), subject} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(b)
	return EventID(appendBase32([]byte(EventID("").Prefix()), [16]byte(sum[:16])))
}

// EventSettings say whether a tenant has events, and which are stored.
type EventSettings struct {
	TenantID  TenantID
	Enabled   bool
	EnabledAt *Time // when it was last enabled; nil if it never was

	// The feed has the events from position Oldest to Next-1, except for positions that no event has got after a
	// restore: see EpochPositions. It has none if both are equal. A reader that begins with the oldest one reads
	// after Oldest-1.
	Oldest, Next int64

	// The positions of the last events before each restore, newest first, as far as these events are stored.
	Ends []int64
}

// EpochPositions is the number of positions of an epoch. A database that is restored from a backup begins a new epoch
// of each feed, with the first position after a multiple of this number: the events that were lost had positions of
// an earlier one, so that no position ever names two events, and a reader notices that events were lost. 8,192 epochs
// are below 2^53, to which JSON numbers are exact (RFC 8259, section 6).
const EpochPositions = 1 << 40

// EpochStart returns the first position of the epoch of a position.
func EpochStart(position int64) int64 { return (position-1)/EpochPositions*EpochPositions + 1 }

// Behind returns how many events follow a position.
func (s *EventSettings) Behind(after int64) (n int64) {
	start, last := EpochStart(s.Next), s.Next-1
	for _, end := range append(slices.Clone(s.Ends), 0) {
		if n += max(0, last-max(after, start-1)); after >= start-1 {
			break
		}
		start, last = EpochStart(end), end
	}
	return n
}

// An ExpiredEventsError reports that the feed does not continue after a position: the next events are no longer
// stored, by default after MinEventRetention, or the database was restored from a backup without the event at it.
type ExpiredEventsError struct {
	After  int64 // the position
	Oldest int64 // the first position after which the feed continues: continue after Oldest-1
}

// Restored reports whether a restore is the reason.
func (e *ExpiredEventsError) Restored() bool {
	return e.After >= e.Oldest || e.After < EpochStart(e.Oldest)-1
}

// Missing returns how many events are known to have been between both positions.
func (e *ExpiredEventsError) Missing() int64 {
	return max(0, e.Oldest-1-max(e.After, EpochStart(e.Oldest)-1))
}

func (e *ExpiredEventsError) Error() string {
	if e.Restored() {
		return fmt.Sprintf("the feed continues after position %d, not after %d: the database was restored", e.Oldest-1, e.After)
	}
	return fmt.Sprintf("events before position %d have expired", e.Oldest)
}

// How long events are stored.
const (
	MinEventRetention = 7 * 24 * time.Hour // also the default
	MaxEventRetention = 90 * 24 * time.Hour
)

// MaxEventPage is the maximum number of events that are read at once.
const MaxEventPage = 1000

// MaxEventPayload is the size in bytes up to which an event contains the payload of its entry.
const MaxEventPayload = 20_000

// KeyExpiryNotice is how long before the expiry of a key EventKeyExpiring reports it.
const KeyExpiryNotice = 7 * 24 * time.Hour
