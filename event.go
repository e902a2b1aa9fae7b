package atrium

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

// An Event reports a change to the data of a tenant. Events are ordered by Position. Their contents
// never change, except that they can be erased.
type Event struct {
	ID        EventID // derived from what it is about: see EventKey
	TenantID  TenantID
	Position  int64 // in the feed of the tenant: from 1, consecutive within an epoch (EpochPositions)
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

// A CreatedAccount is an account as an append created it.
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

	// The feed has the events from position Oldest to Next-1, except for the positions that a restore has skipped:
	// see RestoredPosition. It has none if both are equal. A reader that begins with the oldest one reads
	// after Oldest-1. Last is the newest one, 0 if there is none.
	Oldest, Last, Next int64
}

// An EventFeed has what is needed to count the events after a position.
type EventFeed struct {
	EventSettings

	// The last positions of the epochs before that of Next which have stored events, newest first.
	Ends []int64
}

// Behind returns how many events follow a position. Those of earlier epochs that have expired do not count.
func (f *EventFeed) Behind(after int64) (n int64) {
	start, last := EpochStart(f.Next), f.Next-1
	for i := 0; ; i++ {
		n += max(0, last-max(after, start-1))
		if after >= start-1 || i == len(f.Ends) {
			return n
		}
		start, last = EpochStart(f.Ends[i]), f.Ends[i]
	}
}

// EpochPositions is the number of positions of an epoch. A database that is restored from a backup continues each feed
// with a new epoch, so that no position ever names two events, and a reader notices that events were lost.
const EpochPositions = 1 << 26

// EpochStart returns the first position of the epoch of a position.
func EpochStart(position int64) int64 { return (position-1)/EpochPositions*EpochPositions + 1 }

// RestoredPosition returns the position of the next event of all feeds of a database that is restored at a time: the first
// of the epoch whose number is that of the minute since 1970. Feeds do not reach it by counting, as they would
// need a million events a second, and a later restore has a higher one, also from the same backup. Until the year 2225, JSON numbers
// represent it exactly (RFC 8259, section 6).
func RestoredPosition(at time.Time) int64 { return at.Unix()/60*EpochPositions + 1 }

// An ExpiredEventsError reports that the feed does not continue after a position: the next events are no longer
// stored, by default after MinEventRetention, or no event has the position.
type ExpiredEventsError struct {
	After  int64 // the position
	Oldest int64 // the first position after which the feed continues: continue after Oldest-1
	Lost   bool  // whether no event has the position: it was lost in a restore, or never existed
}

// Missing returns how many events are known to have been between both positions: those of the epoch of Oldest.
func (e *ExpiredEventsError) Missing() int64 {
	return max(0, e.Oldest-1-max(e.After, EpochStart(e.Oldest)-1))
}

func (e *ExpiredEventsError) Error() string {
	if e.Lost {
		return fmt.Sprintf("no event has position %d: continue after %d", e.After, e.Oldest-1)
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
