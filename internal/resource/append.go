package resource

import (
	"io"

	"atrium"
	"atrium/internal/appendjson"
)

// An AccountBody is the body of an answer that shows an account with the prospects that are
// linked to it: what NewAccount returns, encoded without being made.
type AccountBody struct {
	atrium.Account
	Linked []atrium.Prospect
}

// AppendTo appends the account.
func (a *AccountBody) AppendTo(w *appendjson.Writer) {
	appendAccount(w, &a.Account)
	for i := range a.Linked {
		if i > 0 {
			w.Literal(",")
		}
		appendProspect(w, &a.Linked[i])
	}
	w.Literal("]}")
}

// appendAccount appends an account up to its first prospect.
func appendAccount(w *appendjson.Writer, a *atrium.Account) {
	w.Literal(`{"accountId":`)
	w.String(string(a.ID))
	w.Literal(`,"tenantId":`)
	w.String(string(a.TenantID))
	w.Literal(`,"domain":`)
	w.String(a.Domain)
	w.Literal(`,"name":`)
	if a.Name == "" {
		w.Literal("null")
	} else {
		w.String(a.Name)
	}
	w.Literal(`,"createdAt":`)
	w.Time(a.CreatedAt)
	w.Literal(`,"updatedAt":`)
	w.Time(a.UpdatedAt)
	w.Literal(`,"latestActivityAt":`)
	w.NullableTime(a.LatestActivityAt)
	w.Literal(`,"linkedProspects":[`)
}

func appendProspect(w *appendjson.Writer, p *atrium.Prospect) {
	w.Literal(`{"prospectId":`)
	w.String(string(p.ID))
	w.Literal(`,"tenantId":`)
	w.String(string(p.TenantID))
	w.Member(`,"name":`, p.Name)
	w.Member(`,"email":`, p.Email)
	w.Member(`,"domain":`, p.Domain)
	w.Member(`,"slug":`, p.Slug)
	w.Member(`,"phoneNumber":`, p.PhoneNumber)
	w.Member(`,"linkedinProfileUrl":`, p.LinkedinProfileURL)
	w.Literal(`,"createdAt":`)
	w.Time(p.CreatedAt)
	w.Literal(`,"updatedAt":`)
	w.Time(p.UpdatedAt)
	w.Literal("}")
}

// writeBytes is about how much is written at once.
const writeBytes = 64 << 10

// WriteAccount writes the JSON of an account up to the end of its array of prospects, as
// AccountBody is encoded, and then tail, which ends the object. It returns the tag of the
// account as it is shown with what was merged into it. It holds one prospect and about
// writeBytes of JSON. The error is that of reading the prospects or of w.
func WriteAccount(w io.Writer, d *atrium.AccountDetail, merged []atrium.MergedAccount, tail string) (AccountTag, error) {
	json := &appendjson.Writer{Text: make([]byte, 0, writeBytes)}
	appendAccount(json, &d.Account)
	separator := ""
	tag, err := eachProspect(d, merged, func(p *atrium.Prospect) error {
		json.Literal(separator)
		separator = ","
		if appendProspect(json, p); json.Err != nil || len(json.Text) < writeBytes {
			return json.Err
		}
		_, err := w.Write(json.Text)
		json.Text = json.Text[:0]
		return err
	})
	if err != nil {
		return AccountTag{}, err
	}
	json.Literal("]")
	json.Literal(tail)
	if json.Err == nil {
		_, json.Err = w.Write(json.Text)
	}
	return tag, json.Err
}
