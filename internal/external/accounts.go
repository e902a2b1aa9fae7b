package external

import (
	"context"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type account struct {
	AccountID        atrium.AccountID `json:"accountId"`
	TenantID         atrium.TenantID  `json:"tenantId"`
	Domain           string           `json:"domain"`
	Name             *string          `json:"name"`
	CreatedAt        atrium.Time      `json:"createdAt"`
	UpdatedAt        atrium.Time      `json:"updatedAt"`
	LatestActivityAt *atrium.Time     `json:"latestActivityAt"`
	LinkedProspects  []prospect       `json:"linkedProspects"`
}

type prospect struct {
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

func (a *API) getAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, linked, err := a.Store.Account(ctx, who.TenantID, id)
	if err != nil {
		return rest.Response{}, err
	}
	return accountResponse(found, linked), nil
}

func (a *API) updateAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name string
	err := a.Decode.Do(ctx, func() (err error) {
		name, err = decodeAccountUpdate(r.Body)
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	check := func(current atrium.Account, linked []atrium.Prospect) error {
		fields := fieldsTag(current, linked)
		return r.CheckIfMatch(func(tag string) bool {
			given, _, _ := strings.Cut(tag, tagSeparator)
			return given == fields
		})
	}
	renamed, linked, err := a.Store.RenameAccount(ctx, r.ChangeBy(who), id, name, check)
	if err != nil {
		return rest.Response{}, err
	}
	return accountResponse(renamed, linked), nil
}

func decodeAccountUpdate(body []byte) (name string, err error) {
	o, err := strictjson.Parse(body)
	if err != nil {
		return "", err
	}
	name, _ = o.Text("name", strictjson.Required, upTo(atrium.MaxName))
	if faults := o.Faults(); len(faults) > 0 {
		return "", atrium.Invalid(faults...)
	}
	return name, nil
}

func accountResponse(a atrium.Account, linked []atrium.Prospect) rest.Response {
	body := account{
		AccountID: a.ID, TenantID: a.TenantID, Domain: a.Domain, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		LatestActivityAt: a.LatestActivityAt, LinkedProspects: make([]prospect, len(linked)),
	}
	if a.Name != "" {
		body.Name = &a.Name
	}
	for i := range linked {
		p := &linked[i]
		body.LinkedProspects[i] = prospect{
			p.ID, p.TenantID, p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL, p.CreatedAt, p.UpdatedAt,
		}
	}
	return rest.Response{Body: body, ETag: fieldsTag(a, linked) + tagSeparator + activityTag(a)}
}

// An account's entity tag has two parts: its own fields with its prospects, and
// its newest activity. A reader compares both. Who renames compares the first
// alone, so that entries that arrive meanwhile do not get in the way.
const tagSeparator = "-"

func activityTag(a atrium.Account) string {
	if a.LatestActivityAt == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*a.LatestActivityAt), 36)
}

// fieldsTag hashes all that an answer shows but the newest activity, each text
// with its length.
func fieldsTag(a atrium.Account, linked []atrium.Prospect) string {
	b := make([]byte, 0, 256)
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
	return strconv.FormatUint(xxhash.Sum64(b), 36)
}
