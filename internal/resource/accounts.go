// Package resource defines the JSON of the resources that both APIs share.
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

// A Prospect is a prospect in an account.
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

// NewAccount returns the JSON form of an account.
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

// WriteAccount writes the JSON of an account in the form of NewAccount. Unless merged is nil, it
// adds the member "merged", an array with the result of encode for each merged account. It returns
// the tag of the response. In memory, it holds one prospect or merged account, and about
// writeBytes of JSON. It returns errors of reading, encode and w.
func WriteAccount(
	w io.Writer, d *atrium.AccountDetail, merged Merged, encode func(*atrium.MergedAccount) ([]byte, error),
) (AccountTag, error) {
	start, err := json.Marshal(NewAccount(d.Account, nil))
	if err != nil {
		return AccountTag{}, err
	}
	out := bufio.NewWriterSize(w, writeBytes)
	hash := newTagHash(&d.Account)
	_, _ = out.Write(bytes.TrimSuffix(start, []byte("]}"))) // Flush returns its error
	separator := ""
	err = d.EachProspect(func(p *atrium.Prospect) error {
		hash.prospect(p)
		_, err := out.WriteString(separator)
		separator = ","
		if err != nil {
			return err
		}
		prospect := newProspect(p)
		return json.MarshalWrite(out, &prospect)
	})
	_ = out.WriteByte(']')
	if err == nil && merged != nil {
		_, _ = out.WriteString(`,"merged":[`)
		separator = ""
		err = merged(func(m *atrium.MergedAccount) error {
			hash.merged(m)
			encoded, err := encode(m)
			if err != nil {
				return err
			}
			_, _ = out.WriteString(separator)
			separator = ","
			_, err = out.Write(encoded)
			return err
		})
		_ = out.WriteByte(']')
	}
	if err != nil {
		return AccountTag{}, err
	}
	_ = out.WriteByte('}')
	return hash.tag(&d.Account), out.Flush()
}

// An AccountTag is the entity tag of an account. It has two parts: the first covers all that a
// response shows except the newest activity, which is the second. Reads compare both. Changes
// compare only the first, so that entries that arrive in the meantime do not conflict.
type AccountTag struct{ fields, activity string }

const tagSeparator = "-"

// String returns the tag without quotes.
func (t AccountTag) String() string { return t.fields + tagSeparator + t.activity }

// SameFields reports whether the first part of another tag is the same.
func (t AccountTag) SameFields(tag string) bool {
	fields, _, _ := strings.Cut(tag, tagSeparator)
	return fields == t.fields
}

// NewAccountTag returns the tag of an account shown with its prospects and the accounts merged
// into it. It hashes each text with its length.
func NewAccountTag(a atrium.Account, linked []atrium.Prospect, merged []atrium.MergedAccount) AccountTag {
	b := make(tagText, 0, 2048) // on the stack; enough for most accounts
	b = b.account(&a)
	for i := range linked {
		b = b.prospect(&linked[i])
	}
	for i := range merged {
		b = b.merged(&merged[i])
	}
	return AccountTag{hashText(xxhash.Sum64(b)), activityPart(&a)}
}

// Merged calls each for the merged accounts in a response, like
// atrium.AccountDetail.EachMerged. With a nil Merged, the response has none.
type Merged func(each func(*atrium.MergedAccount) error) error

// DetailTag is NewAccountTag for any number of prospects and merged accounts. It returns errors of
// reading them.
func DetailTag(d *atrium.AccountDetail, merged Merged) (AccountTag, error) {
	h := newTagHash(&d.Account)
	err := d.EachProspect(func(p *atrium.Prospect) error {
		h.prospect(p)
		return nil
	})
	if err == nil && merged != nil {
		err = merged(func(m *atrium.MergedAccount) error {
			h.merged(m)
			return nil
		})
	}
	return h.tag(&d.Account), err
}

// A tagHash computes an AccountTag incrementally.
type tagHash struct {
	hash *xxhash.Digest
	text tagText
}

func newTagHash(a *atrium.Account) *tagHash {
	h := &tagHash{xxhash.New(), make(tagText, 0, 2048)}
	h.write(h.text.account(a))
	return h
}

func (h *tagHash) write(text tagText) {
	_, _ = h.hash.Write(text) // never fails
	h.text = text[:0]
}

func (h *tagHash) prospect(p *atrium.Prospect)    { h.write(h.text.prospect(p)) }
func (h *tagHash) merged(m *atrium.MergedAccount) { h.write(h.text.merged(m)) }

func (h *tagHash) tag(a *atrium.Account) AccountTag {
	return AccountTag{hashText(h.hash.Sum64()), activityPart(a)}
}

func hashText(sum uint64) string { return strconv.FormatUint(sum, 36) }

func activityPart(a *atrium.Account) string {
	if a.LatestActivityAt == nil {
		return "0"
	}
	return strconv.FormatInt(int64(*a.LatestActivityAt), 36)
}

// A tagText is the text that the first part of an AccountTag hashes. Its methods append to it.
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
	b = b.text((*string)(&p.ID)).text(p.Name).text(p.Email).text(p.Domain)
	b = b.text(p.Slug).text(p.PhoneNumber).text(p.LinkedinProfileURL)
	return b.instant(p.CreatedAt).instant(p.UpdatedAt)
}

func (b tagText) merged(m *atrium.MergedAccount) tagText {
	return b.text((*string)(&m.ID)).text(&m.Domain).text(&m.Name).text((*string)(&m.MergedInto))
}
