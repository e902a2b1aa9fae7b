// Package resource has what more than one API shows, in its one form.
package resource

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"atrium"
)

// An Account is an account with the prospects that are linked to it.
type Account struct {
	AccountID        atrium.AccountID `json:"accountId"`
	TenantID         atrium.TenantID  `json:"tenantId"`
	Domain           string           `json:"domain"`
	Name             *string          `json:"name"`
	CreatedAt        atrium.Time      `json:"createdAt"`
	UpdatedAt        atrium.Time      `json:"updatedAt"`
	LatestActivityAt *atrium.Time     `json:"latestActivityAt"`
	LinkedProspects  []Prospect       `json:"linkedProspects"`
}

// A Prospect is a prospect as accounts show it.
type Prospect struct {
	ProspectID         atrium.ProspectID `json:"prospectId"`
	TenantID           atrium.TenantID   `json:"tenantId"`
	Name               *string           `json:"name,omitzero"`
	Email              *string           `json:"email,omitzero"`
	Domain             *string           `json:"domain,omitzero"`
	Slug               *string           `json:"slug,omitzero"`
	PhoneNumber        *string           `json:"phoneNumber,omitzero"`
	LinkedinProfileURL *string           `json:"linkedinProfileUrl,omitzero"`
	CreatedAt          atrium.Time       `json:"createdAt"`
	UpdatedAt          atrium.Time       `json:"updatedAt"`
}

// NewAccount returns an account as it is shown.
func NewAccount(a atrium.Account, linked []atrium.Prospect) Account {
	shown := Account{
		AccountID: a.ID, TenantID: a.TenantID, Domain: a.Domain, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		LatestActivityAt: a.LatestActivityAt, LinkedProspects: make([]Prospect, len(linked)),
	}
	if a.Name != "" {
		shown.Name = &a.Name
	}
	for i := range linked {
		p := &linked[i]
		shown.LinkedProspects[i] = Prospect{
			p.ID, p.TenantID, p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL, p.CreatedAt, p.UpdatedAt,
		}
	}
	return shown
}

// An AccountTag is the entity tag of an account. It has two parts: the account's own
// fields with all that is shown beside them, and its newest activity. A reader
// compares both. Who changes the account compares the first alone, so that entries
// that arrive meanwhile do not get in the way.
type AccountTag struct{ fields, activity string }

const tagSeparator = "-"

// String returns the tag without quotes.
func (t AccountTag) String() string { return t.fields + tagSeparator + t.activity }

// SameFields reports whether another tag is of the same fields.
func (t AccountTag) SameFields(tag string) bool {
	fields, _, _ := strings.Cut(tag, tagSeparator)
	return fields == t.fields
}

// NewAccountTag returns the tag of an account that is shown with prospects and what
// was merged into it. It hashes each text with its length.
func NewAccountTag(a atrium.Account, linked []atrium.Prospect, merged []atrium.MergedAccount) AccountTag {
	b := make([]byte, 0, 2048) // on the stack, and enough for most
	text := func(s *string) {
		if s == nil {
			b = append(b, '-')
			return
		}
		b = append(strconv.AppendInt(b, int64(len(*s)), 10), ':')
		b = append(b, *s...)
	}
	instant := func(t atrium.Time) { b = append(strconv.AppendInt(b, int64(t), 36), ';') }

	text((*string)(&a.ID))
	text(&a.Domain)
	text(&a.Name)
	instant(a.CreatedAt)
	instant(a.UpdatedAt)
	for i := range linked {
		p := &linked[i]
		text((*string)(&p.ID))
		for _, s := range []*string{p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL} {
			text(s)
		}
		instant(p.CreatedAt)
		instant(p.UpdatedAt)
	}
	for i := range merged {
		m := &merged[i]
		for _, s := range []*string{(*string)(&m.ID), &m.Domain, &m.Name, (*string)(&m.MergedInto)} {
			text(s)
		}
	}
	activity := "0"
	if a.LatestActivityAt != nil {
		activity = strconv.FormatInt(int64(*a.LatestActivityAt), 36)
	}
	return AccountTag{strconv.FormatUint(xxhash.Sum64(b), 36), activity}
}
