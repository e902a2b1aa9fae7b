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

	// The feed has the events from position Oldest to Next-1: none if both are equal. A reader that begins
	// with the oldest one reads after Oldest-1.
	Oldest, Next int64
}

// An ExpiredEventsError reports that a reader asked for events that are no longer stored: by default,
// they are deleted after MinEventRetention.
type ExpiredEventsError struct {
	Oldest int64 // the oldest position to which this does not apply: continue after Oldest-1
}

func (e *ExpiredEventsError) Error() string {
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
