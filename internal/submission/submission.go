// Package submission reads pieces of account activity as upstream systems send them,
// by one rule for every API that takes them.
package submission

import (
	"atrium"
	"atrium/internal/strictjson"
)

// Decode takes the members of a submission out of an object, and notes what is wrong
// with them there. Members that it does not know it leaves.
func Decode(o *strictjson.Object) (s atrium.Submission) {
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

// upTo returns the check for a text of 1 to most code points.
func upTo(most int) func(string) string {
	return func(text string) string { return atrium.CheckText(text, 1, most) }
}
