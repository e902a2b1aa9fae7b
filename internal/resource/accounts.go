// Package resource has what more than one API shows, in its one form.
package resource

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json"

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
		shown.LinkedProspects[i] = newProspect(&linked[i])
	}
	return shown
}

func newProspect(p *atrium.Prospect) Prospect {
	return Prospect{
		p.ID, p.TenantID, p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL, p.CreatedAt, p.UpdatedAt,
	}
}

// writeBytes is the size of most writes of WriteAccount.
const writeBytes = 64 << 10

// WriteAccount writes the JSON of an account up to the end of its array of prospects, as
// NewAccount is encoded, and then tail, which ends the object. It returns the tag of the
// account shown with the accounts merged into it. It holds one prospect and about writeBytes
// of JSON. The error is that of reading the prospects or of w.
func WriteAccount(
	w io.Writer, d *atrium.AccountDetail, merged []atrium.MergedAccount, tail string,
) (AccountTag, error) {
	start, err := json.Marshal(NewAccount(d.Account, nil))
	if err != nil {
		return AccountTag{}, err
	}
	out := bufio.NewWriterSize(w, writeBytes)
	_, _ = out.Write(bytes.TrimSuffix(start, []byte("]}"))) // Flush returns its error
	separator := ""
	tag, err := eachProspect(d, merged, func(p *atrium.Prospect) error {
		_, err := out.WriteString(separator)
		separator = ","
		if err != nil {
			return err
		}
		prospect := newProspect(p)
		return json.MarshalWrite(out, &prospect)
	})
	if err != nil {
		return AccountTag{}, err
	}
	_, _ = out.WriteString("]" + tail)
	return tag, out.Flush()
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
	b := make(tagText, 0, 2048) // on the stack, and enough for most
	b = b.account(&a)
	for i := range linked {
		b = b.prospect(&linked[i])
	}
	return AccountTag{hashText(xxhash.Sum64(b.merged(merged))), activityPart(&a)}
}

// DetailTag is NewAccountTag for any number of prospects. The error is that of reading
// them.
func DetailTag(d *atrium.AccountDetail, merged []atrium.MergedAccount) (AccountTag, error) {
	if !d.More {
		return NewAccountTag(d.Account, d.Prospects, merged), nil
	}
	return eachProspect(d, merged, func(*atrium.Prospect) error { return nil })
}

// eachProspect calls each for every prospect of an account, and returns the account's tag.
func eachProspect(d *atrium.AccountDetail, merged []atrium.MergedAccount, each func(*atrium.Prospect) error) (AccountTag, error) {
	hash := xxhash.New()
	text := make(tagText, 0, 2048)
	_, _ = hash.Write(text.account(&d.Account)) // never fails
	err := d.EachProspect(func(p *atrium.Prospect) error {
		text = text[:0].prospect(p)
		_, _ = hash.Write(text)
		return each(p)
	})
	_, _ = hash.Write(text[:0].merged(merged))
	return AccountTag{hashText(hash.Sum64()), activityPart(&d.Account)}, err
}

func hashText(sum uint64) string { return strconv.FormatUint(sum, 36) }

func activityPart(a *atrium.Account) string {
	if a.LatestActivityAt == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*a.LatestActivityAt), 36)
}

// A tagText is what the first part of an AccountTag is a hash of. Its methods append to it.
type tagText []byte

func (b tagText) text(s *string) tagText {
	if s == nil {
		return append(b, '-')
	}
	b = append(strconv.AppendInt(b, int64(len(*s)), 10), ':')
	return append(b, *s...)
}

func (b tagText) instant(t atrium.Time) tagText {
	return append(strconv.AppendInt(b, int64(t), 36), ';')
}

func (b tagText) account(a *atrium.Account) tagText {
	b = b.text((*string)(&a.ID)).text(&a.Domain).text(&a.Name)
	return b.instant(a.CreatedAt).instant(a.UpdatedAt)
}

func (b tagText) prospect(p *atrium.Prospect) tagText {
	b = b.text((*string)(&p.ID)).text(p.Name).text(p.Email).text(p.Domain).text(p.Slug).text(p.PhoneNumber).text(p.LinkedinProfileURL)
	return b.instant(p.CreatedAt).instant(p.UpdatedAt)
}

func (b tagText) merged(merged []atrium.MergedAccount) tagText {
	for i := range merged {
		m := &merged[i]
		b = b.text((*string)(&m.ID)).text(&m.Domain).text(&m.Name).text((*string)(&m.MergedInto))
	}
	return b
}
