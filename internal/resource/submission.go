package resource

import (
	"context"

	"atrium"
	"atrium/internal/strictjson"
)

// Logs records account activity durably. internal/ingest implements it.
type Logs interface {
	Submit(ctx context.Context, d *atrium.Draft) (atrium.Receipt, error)
}

// DecodeSubmission decodes the members of a submission. o collects their faults. It ignores
// unknown members.
func DecodeSubmission(o *strictjson.Object) (s atrium.Submission) {
	s.Source, _ = o.Text("source", strictjson.Required, upTo(atrium.MaxSource))
	if o.Has("type") {
		s.Type, _ = o.Text("type", strictjson.Required, upTo(atrium.MaxType))
	} else {
		s.Type = atrium.DefaultType
	}
	s.Payload = o.Object("payload", strictjson.Required)
	id, _ := o.Text("accountId", strictjson.Optional, func(text string) string {
		if _, ok := atrium.ParseID[atrium.AccountID](text); !ok {
			return "must match ^account_[a-z0-9]{26}$"
		}
		return ""
	})
	s.Claim.AccountID = atrium.AccountID(id)
	s.Claim.Domain, _ = o.Text("domain", strictjson.Optional, atrium.CheckDomain)
	s.Claim.Name, _ = o.Text("name", strictjson.Optional, upTo(atrium.MaxName))
	s.IdempotencyKey, _ = o.Text("idempotencyKey", strictjson.Optional, upTo(atrium.MaxIdempotencyKey))
	return s
}

// upTo returns the check of a text with 1 to maximum code points.
func upTo(maximum int) func(string) string {
	return func(text string) string { return atrium.CheckText(text, 1, maximum) }
}
