package resource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
)

// An event is an atrium.Event without its data.
type event struct {
	ID        atrium.EventID   `json:"id"`
	Type      atrium.EventType `json:"type"`
	Timestamp atrium.Time      `json:"timestamp"`
	TenantID  atrium.TenantID  `json:"tenantId"`
	Position  int64            `json:"position"`
}

// An entryEvent is the data of atrium.EventEntryCreated without the payload.
type entryEvent struct {
	AccountLogID   atrium.EntryID   `json:"accountLogId"`
	AccountID      atrium.AccountID `json:"accountId"`
	CreatedAt      atrium.Time      `json:"createdAt"`
	OccurredAt     *atrium.Time     `json:"occurredAt,omitzero"`
	Source         string           `json:"source"`
	Type           string           `json:"type"`
	Claimed        claimed          `json:"claimed"`
	IdempotencyKey string           `json:"idempotencyKey,omitzero"`
}

type claimed struct {
	AccountID atrium.AccountID `json:"accountId,omitzero"`
	Domain    string           `json:"domain,omitzero"`
	Name      string           `json:"name,omitzero"`
}

// An accountEvent is the data of atrium.EventAccountCreated for an account that an append created.
type accountEvent struct {
	AccountID    atrium.AccountID `json:"accountId"`
	Domain       string           `json:"domain"`
	Name         string           `json:"name,omitzero"`
	AccountLogID atrium.EntryID   `json:"accountLogId"`
}

// An erasedEvent is the data of atrium.EventEntryErased.
type erasedEvent struct {
	AccountLogID atrium.EntryID   `json:"accountLogId"`
	AccountID    atrium.AccountID `json:"accountId"`
}

// An auditEvent is the data of other events, without the identifier of the subject and the detail.
type auditEvent struct {
	Actor       string `json:"actor"`
	AuditNumber int64  `json:"auditNumber"`
}

// ErrErasedEvent is the error of Event for an event whose contents are erased.
var ErrErasedEvent = errors.New("the contents of the event are erased")

// PayloadPath returns the path of the management API from which the payload of an entry is read.
func PayloadPath(id atrium.EntryID) string {
	return "/manage/v0/account_logs/" + string(id) + "/payload"
}

// Event returns the JSON of an event, the same bytes each time. It contains the payload of an entry byte for byte as
// sent, or its path if it is larger than atrium.MaxEventPayload. It returns ErrErasedEvent if there is nothing to send.
func Event(e *atrium.Event) ([]byte, error) {
	if e.Erased {
		return nil, ErrErasedEvent
	}
	data, err := eventData(e)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(event{e.ID, e.Type, e.At, e.TenantID, e.Position})
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return with(b, "data", data), nil
}

// with adds a member to a JSON object that has members.
func with(object []byte, name string, value []byte) []byte {
	object = append(object[:len(object)-1], `,"`...)
	object = append(append(object, name...), `":`...)
	return append(append(object, value...), '}')
}

func eventData(e *atrium.Event) ([]byte, error) {
	switch {
	case e.Entry != nil:
		return entryData(e)
	case e.Account != nil:
		return json.Marshal(accountEvent{e.AccountID, e.Account.Domain, e.Account.Name, e.EntryID})
	case e.Audit != nil:
		return auditData(e.Audit)
	default:
		return json.Marshal(erasedEvent{e.EntryID, e.AccountID})
	}
}

func entryData(e *atrium.Event) ([]byte, error) {
	s := &e.Entry.Submission
	b, err := json.Marshal(entryEvent{
		e.EntryID, e.AccountID, e.Entry.CreatedAt, s.OccurredAt, s.Source, s.Type, claimed{s.Claim.AccountID, s.Claim.Domain, s.Claim.Name}, s.IdempotencyKey,
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode the entry of an event: %w", err)
	case s.Payload != nil:
		return with(b, "payload", s.Payload), nil
	default:
		return with(b, "payloadPath", []byte(`"`+PayloadPath(e.EntryID)+`"`)), nil
	}
}

func auditData(r *atrium.AuditRow) ([]byte, error) {
	b, err := json.Marshal(auditEvent{r.Actor, r.Number})
	if err != nil {
		return nil, fmt.Errorf("encode the record of an event: %w", err)
	}
	return with(with(b, subjectMember(r.Subject), []byte(`"`+r.Subject+`"`)), "detail", r.Detail), nil
}

// subjectMember returns the name of the member with the subject of an audit record: accountId for an account, and so on.
func subjectMember(subject string) string {
	kind, _, _ := strings.Cut(subject, "_")
	if kind+"_" == atrium.EntryID("").Prefix() {
		kind = "accountLog"
	}
	return kind + "Id"
}
