package transfer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/strictjson"
)

// The lines of each kind, with their members in the order of an export.
type (
	accountLine struct {
		Kind      string           `json:"kind"`
		AccountID atrium.AccountID `json:"accountId"`
		Domain    string           `json:"domain"`
		Name      string           `json:"name,omitzero"`
		CreatedAt atrium.Time      `json:"createdAt"`
		UpdatedAt atrium.Time      `json:"updatedAt"`
	}
	prospectLine struct {
		Kind               string             `json:"kind"`
		ProspectID         atrium.ProspectID  `json:"prospectId"`
		Name               *string            `json:"name,omitzero"`
		Email              *string            `json:"email,omitzero"`
		Domain             *string            `json:"domain,omitzero"`
		Slug               *string            `json:"slug,omitzero"`
		PhoneNumber        *string            `json:"phoneNumber,omitzero"`
		LinkedinProfileURL *string            `json:"linkedinProfileUrl,omitzero"`
		AccountIDs         []atrium.AccountID `json:"accountIds"`
		CreatedAt          atrium.Time        `json:"createdAt"`
		UpdatedAt          atrium.Time        `json:"updatedAt"`
	}
	mergeLine struct {
		Kind      string           `json:"kind"`
		AccountID atrium.AccountID `json:"accountId"`
		Into      atrium.AccountID `json:"into"`
	}
	brandLine struct {
		Kind      string         `json:"kind"`
		BrandID   atrium.BrandID `json:"brandId"`
		Name      string         `json:"name"`
		CreatedAt atrium.Time    `json:"createdAt"`
		UpdatedAt atrium.Time    `json:"updatedAt"`
	}
	pageLine struct {
		Kind           string            `json:"kind"`
		PageID         atrium.PageID     `json:"pageId"`
		BrandID        string            `json:"brandId"`
		Name           string            `json:"name"`
		PageContext    string            `json:"pageContext"`
		Title          string            `json:"title"`
		Status         atrium.PageStatus `json:"status"`
		Actions        jsontext.Value    `json:"actions"`
		Scripts        jsontext.Value    `json:"scripts"`
		FooterLinks    jsontext.Value    `json:"footerLinks"`
		HeaderActionID *string           `json:"headerActionId,omitzero"`
		Metadata       jsontext.Value    `json:"metadata,omitzero"`
		Public         bool              `json:"public,omitzero"`
		MaxAge         *int64            `json:"maxAgeSeconds,omitzero"` // nil for the default
		CreatedAt      atrium.Time       `json:"createdAt"`
		UpdatedAt      atrium.Time       `json:"updatedAt"`
		DeletedAt      *atrium.Time      `json:"deletedAt,omitzero"`
		PublishAt      *atrium.Time      `json:"publishAt,omitzero"`
		UnpublishAt    *atrium.Time      `json:"unpublishAt,omitzero"`
	}
	audienceLine struct {
		Kind       string            `json:"kind"`
		AudienceID atrium.AudienceID `json:"audienceId"`
		PageID     atrium.PageID     `json:"pageId"`
		Name       string            `json:"name"`
		Archived   bool              `json:"archived"`
		CreatedAt  atrium.Time       `json:"createdAt"`
		UpdatedAt  atrium.Time       `json:"updatedAt"`
	}
	versionLine struct {
		Kind          string            `json:"kind"`
		ID            atrium.VersionID  `json:"id"`
		PageID        atrium.PageID     `json:"pageId"`
		AudienceID    atrium.AudienceID `json:"audienceId"`
		VersionNumber int64             `json:"versionNumber"`
		Archived      bool              `json:"archived"`
		Published     bool              `json:"published,omitzero"`
		Note          string            `json:"note,omitzero"`
		Content       jsontext.Value    `json:"content,omitzero"`
		CreatedAt     atrium.Time       `json:"createdAt"`
	}
	tombstoneLine struct {
		Kind         string           `json:"kind"`
		AccountLogID atrium.EntryID   `json:"accountLogId"`
		AccountID    atrium.AccountID `json:"accountId"`
		Source       string           `json:"source"`
		Type         string           `json:"type"`
		Secret       []byte           `json:"secret,omitempty"`
		KeyHMAC      []byte           `json:"keyHmac,omitempty"`
		RequestHMAC  []byte           `json:"requestHmac,omitempty"`
		ExpiresAt    *atrium.Time     `json:"expiresAt,omitzero"`
		CreatedAt    atrium.Time      `json:"createdAt"`
	}
	accountLogLine struct {
		Kind           string           `json:"kind"`
		AccountLogID   atrium.EntryID   `json:"accountLogId"`
		AccountID      atrium.AccountID `json:"accountId"`
		Source         string           `json:"source"`
		Type           string           `json:"type"`
		Payload        jsontext.Value   `json:"payload"`
		IdempotencyKey string           `json:"idempotencyKey,omitzero"`
		ByKey          bool             `json:"identifiedByKey,omitzero"`
		Claimed        claimed          `json:"claimed,omitzero"`
		OccurredAt     *atrium.Time     `json:"occurredAt,omitzero"`
		Acknowledged   atrium.AccountID `json:"acknowledgedAccountId,omitzero"`
		CreatedAt      atrium.Time      `json:"createdAt"`
	}
	// An import refuses the lines of the following kinds.
	moveLine struct {
		Kind      string           `json:"kind"`
		MoveID    atrium.MoveID    `json:"moveId"`
		From      atrium.AccountID `json:"fromAccountId"`
		To        atrium.AccountID `json:"toAccountId"`
		Rule      jsontext.Value   `json:"rule"`
		CreatedAt atrium.Time      `json:"createdAt"`
		UndoneAt  *atrium.Time     `json:"undoneAt,omitzero"`
	}
	auditRecordLine struct {
		Kind    string         `json:"kind"`
		Number  int64          `json:"number"`
		At      atrium.Time    `json:"at"`
		Action  string         `json:"action"`
		Subject string         `json:"subject"`
		Detail  jsontext.Value `json:"detail"`
	}
	quarantinedLine struct {
		Kind          string               `json:"kind"`
		QuarantinedID atrium.QuarantinedID `json:"quarantinedId"`
		ReceiverID    atrium.ReceiverID    `json:"receiverId"`
		ReceivedAt    atrium.Time          `json:"receivedAt"`
		Headers       []headerLine         `json:"headers"`
		Query         string               `json:"query"`
		Body          *string              `json:"body,omitzero"`
		BodyBase64    []byte               `json:"bodyBase64,omitzero"` // if it is not UTF-8
	}
	headerLine struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	claimed struct {
		AccountID atrium.AccountID `json:"accountId,omitzero"`
		Domain    string           `json:"domain,omitzero"`
		Name      string           `json:"name,omitzero"`
	}
)

// encoding preserves the JSON of tenants except for white space.
var encoding = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true), json.FormatNilSliceAsNull(false))

// encode returns the line of a record, without its line break.
func encode(record store.Record) ([]byte, error) {
	line, err := lineOf(record)
	if err != nil {
		return nil, err
	}
	return json.Marshal(line, encoding)
}

func lineOf(record store.Record) (any, error) {
	switch r := record.(type) {
	case *atrium.Account:
		return accountLine{"account", r.ID, r.Domain, r.Name, r.CreatedAt, r.UpdatedAt}, nil
	case *atrium.LinkedProspect:
		return prospectLine{
			"prospect", r.ID, r.Name, r.Email, r.Domain, r.Slug, r.PhoneNumber, r.LinkedinProfileURL,
			r.AccountIDs, r.CreatedAt, r.UpdatedAt,
		}, nil
	case *atrium.Merge:
		return mergeLine{"merge", r.AccountID, r.Into}, nil
	case *atrium.Brand:
		return brandLine{"brand", r.ID, r.Name, r.CreatedAt, r.UpdatedAt}, nil
	case *atrium.Page:
		return newPageLine(r, &atrium.Schedule{}), nil
	case *atrium.ScheduledPage:
		return newPageLine(&r.Page, &r.Schedule), nil
	case *atrium.Audience:
		return audienceLine{"audience", r.ID, r.PageID, r.Name, r.Archived, r.CreatedAt, r.UpdatedAt}, nil
	case *atrium.AudienceVersion:
		return versionLine{
			"audienceVersion", r.ID, r.PageID, r.AudienceID, r.Number, r.Archived, r.Published, r.Note,
			optional(r.Content), r.CreatedAt,
		}, nil
	case *atrium.Tombstone:
		return tombstoneLine{
			"tombstone", r.EntryID, r.AccountID, r.Source, r.Type, r.Secret, r.KeyHMAC, r.RequestHMAC, r.ExpiresAt, r.CreatedAt,
		}, nil
	case *atrium.Entry:
		return accountLogLine{
			"accountLog", r.ID, r.AccountID, r.Source, r.Type, strictjson.Compact(r.Payload), r.IdempotencyKey, r.IdentifiedByKey,
			claimed{r.Claim.AccountID, r.Claim.Domain, r.Claim.Name}, r.OccurredAt, r.AcknowledgedID, r.CreatedAt,
		}, nil
	case *atrium.Move:
		return moveLine{"move", r.ID, r.From, r.To, strictjson.Compact(r.Rule), r.CreatedAt, r.UndoneAt}, nil
	case *atrium.AuditRow:
		return auditRecordLine{"auditRecord", r.Number, r.At, r.Action, r.Subject, r.Detail}, nil
	case *atrium.QuarantinedDelivery:
		return newQuarantinedLine(r), nil
	default:
		return nil, fmt.Errorf("%T has no kind of line", record)
	}
}

func newQuarantinedLine(d *atrium.QuarantinedDelivery) quarantinedLine {
	valid := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
	line := quarantinedLine{Kind: "quarantinedDelivery", QuarantinedID: d.ID, ReceiverID: d.ReceiverID, ReceivedAt: d.ReceivedAt, Headers: []headerLine{}, Query: valid(d.Query)}
	for _, h := range d.Headers {
		line.Headers = append(line.Headers, headerLine{valid(h.Name), valid(h.Value)})
	}
	if utf8.Valid(d.Body) {
		line.Body = new(string(d.Body))
	} else {
		line.BodyBase64 = d.Body
	}
	return line
}

func newPageLine(p *atrium.Page, s *atrium.Schedule) pageLine {
	var maxAge *int64
	if p.MaxAge != atrium.DefaultMaxAge {
		maxAge = &p.MaxAge
	}
	return pageLine{
		"page", p.ID, p.BrandID, p.Name, p.Context, p.Title, p.Status,
		strictjson.Compact(p.Actions), strictjson.Compact(p.Scripts), strictjson.Compact(p.FooterLinks),
		p.HeaderActionID, optional(p.Metadata), p.Public, maxAge, p.CreatedAt, p.UpdatedAt, p.DeletedAt, s.PublishAt, s.UnpublishAt,
	}
}

// optional returns a value without white space, or nil for none.
func optional(v []byte) jsontext.Value {
	if v == nil {
		return nil
	}
	return strictjson.Compact(v)
}
