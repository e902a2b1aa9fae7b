package resource

import (
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
	for i := range a.Linked {
		if i > 0 {
			w.Literal(",")
		}
		appendProspect(w, &a.Linked[i])
	}
	w.Literal("]}")
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
