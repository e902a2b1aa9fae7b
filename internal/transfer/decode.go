package transfer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/strictjson"
)

// maxNames is the maximum number of member names in all objects of a line together: detecting
// duplicates takes more memory than a short name.
const maxNames = 500_000

// decode decodes a line. Its error is an *atrium.Error with the first atrium.MaxFaults faults.
func decode(line []byte) (store.Import, error) {
	if strictjson.HasMoreNames(line, maxNames) {
		return store.Import{}, atrium.Invalid(atrium.Fault{In: atrium.InBody, Detail: "has more than 500,000 field names"})
	}
	o, err := strictjson.Parse(line)
	if err != nil {
		return store.Import{}, err
	}
	d := &decoder{Object: o}
	kind, _ := d.Text("kind", strictjson.Required, nil)
	switch kind {
	case "account":
		d.account()
	case "prospect":
		d.prospect()
	case "merge":
		d.merge()
	case "brand":
		d.brand()
	case "page":
		d.page()
	case "audience":
		d.audience()
	case "audienceVersion":
		d.audienceVersion()
	case "tombstone":
		d.tombstone()
	case "accountLog":
		d.accountLog()
	default:
		if len(d.Faults()) == 0 {
			d.Fault("kind", "must be one of account, prospect, merge, brand, page, audience, audienceVersion, tombstone, accountLog")
		}
		return store.Import{}, atrium.Invalid(d.Faults()...)
	}
	d.RejectUnknown()
	if faults := d.Faults(); len(faults) > 0 {
		return store.Import{}, atrium.Invalid(faults...)
	}
	if e, ok := d.item.Record.(*atrium.Entry); ok && e.IdentifiedByKey {
		d.item.Fingerprint = canonical.KeyFingerprint(e.IdempotencyKey)
	} else if ok && e.IdempotencyKey != "" {
		if d.item.Fingerprint, err = canonical.Fingerprint(e.Submission); err != nil {
			return store.Import{}, err
		}
	}
	d.item.Differs = differs(line, d.item.Record)
	return d.item, nil
}

// A decoder decodes the members of one line.
type decoder struct {
	*strictjson.Object
	item store.Import
}

func (d *decoder) account() {
	a := &atrium.Account{ID: identifier[atrium.AccountID](d, "accountId", strictjson.Optional)}
	domain, _ := d.Text("domain", strictjson.Required, atrium.CheckDomain)
	a.Domain, d.item.LegacyDomain = canonical.DomainForms(domain)
	if a.ID != "" && domain == d.item.LegacyDomain { // an account of an earlier version, from an export
		a.Domain, d.item.LegacyDomain = domain, ""
	}
	a.Name, _ = d.Text("name", strictjson.Nullable, textOf(1, atrium.MaxName))
	d.dates(&a.CreatedAt, &a.UpdatedAt)
	d.item.Record = a
}

func (d *decoder) prospect() {
	p := &atrium.LinkedProspect{}
	p.ID = identifier[atrium.ProspectID](d, "prospectId", strictjson.Optional)
	text := func(name string) *string { return d.optionalText(name, atrium.MaxProspectText) }
	p.Name, p.Email, p.Domain = text("name"), text("email"), text("domain")
	p.Slug, p.PhoneNumber, p.LinkedinProfileURL = text("slug"), text("phoneNumber"), text("linkedinProfileUrl")
	d.matchBy(p)
	p.AccountIDs = d.accountIDs()
	if domain, _ := d.Text("accountDomain", strictjson.Nullable, atrium.CheckDomain); domain != "" {
		d.item.AccountDomain, d.item.LegacyAccountDomain = canonical.DomainForms(domain)
	}
	d.dates(&p.CreatedAt, &p.UpdatedAt)
	d.item.Record = p
}

// matchBy decodes how a prospect is matched if not by its identifier.
func (d *decoder) matchBy(p *atrium.LinkedProspect) {
	by, _ := d.Text("matchBy", strictjson.Nullable, func(s string) string {
		switch r := store.MatchBy(s); {
		case r != store.ByEmail && r != store.ByValues:
			return "must be one of email, values"
		case d.Has("prospectId"):
			return "must not be present with prospectId"
		case r == store.ByEmail && (p.Email == nil || *p.Email == ""):
			return "must not be \"email\" if email is empty"
		}
		return ""
	})
	d.item.MatchBy = store.MatchBy(by)
}

// accountIDs decodes the set of accounts of a prospect.
func (d *decoder) accountIDs() []atrium.AccountID {
	v := d.Array("accountIds", strictjson.Optional)
	if v == nil {
		return nil
	}
	ids := map[atrium.AccountID]bool{} // deduplicates long arrays
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	for _, _ = dec.ReadToken(); dec.PeekKind() != ']'; { // already parsed strictly with the line
		token, err := dec.ReadToken()
		if err != nil || token.Kind() != '"' {
			d.Fault("accountIds", "must be an array of strings")
			return nil
		}
		id, ok := atrium.ParseID[atrium.AccountID](token.String())
		if !ok {
			d.Fault("accountIds", "must hold identifiers of accounts: account_ and 26 characters of a-z and 0-9")
			return nil
		}
		if ids[id] = true; len(ids) > atrium.MaxLinks {
			d.Fault("accountIds", fmt.Sprintf("must hold at most %d accounts", atrium.MaxLinks))
			return nil
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

func (d *decoder) merge() {
	d.item.Record = &atrium.Merge{
		AccountID: identifier[atrium.AccountID](d, "accountId", strictjson.Required),
		Into:      identifier[atrium.AccountID](d, "into", strictjson.Required),
	}
}

func (d *decoder) brand() {
	b := &atrium.Brand{ID: identifier[atrium.BrandID](d, "brandId", strictjson.Optional)}
	b.Name, _ = d.Text("name", strictjson.Required, textOf(1, atrium.MaxName))
	d.dates(&b.CreatedAt, &b.UpdatedAt)
	d.item.Record = b
}

func (d *decoder) page() {
	p := &atrium.Page{ID: identifier[atrium.PageID](d, "pageId", strictjson.Optional)}
	p.BrandID, _ = d.Text("brandId", strictjson.Required, textOf(1, atrium.Unbounded))
	p.Name, _ = d.Text("name", strictjson.Required, anyText)
	p.Context, _ = d.Text("pageContext", strictjson.Required, anyText)
	p.Title, _ = d.Text("title", strictjson.Required, anyText)
	status, _ := d.Text("status", strictjson.Required, func(s string) string {
		if !atrium.PageStatus(s).Valid() {
			return "must be one of archived, draft, published"
		}
		return ""
	})
	p.Status = atrium.PageStatus(status)
	p.Actions = compacted(d.Array("actions", strictjson.Required))
	p.Scripts = compacted(d.Array("scripts", strictjson.Required))
	p.FooterLinks = compacted(d.Array("footerLinks", strictjson.Required))
	p.HeaderActionID = d.optionalText("headerActionId", atrium.Unbounded)
	if v := d.Value("metadata"); string(v) != "null" {
		p.Metadata = compacted(v)
	}
	p.Public, p.MaxAge = d.Bool("public"), atrium.DefaultMaxAge
	if d.Has("maxAgeSeconds") {
		p.MaxAge = d.Integer("maxAgeSeconds", 0, atrium.MaxMaxAge)
	}
	d.dates(&p.CreatedAt, &p.UpdatedAt)
	if at, ok := d.instant("deletedAt", strictjson.Nullable); ok {
		p.DeletedAt = &at
	}
	d.item.Record = p
	var schedule atrium.Schedule
	if at, ok := d.instant("publishAt", strictjson.Nullable); ok {
		schedule.PublishAt = &at
	}
	if at, ok := d.instant("unpublishAt", strictjson.Nullable); ok {
		if schedule.UnpublishAt = &at; schedule.PublishAt != nil && at <= *schedule.PublishAt {
			d.Fault("unpublishAt", "must be after publishAt")
		}
	}
	if schedule != (atrium.Schedule{}) {
		d.item.Record = &atrium.ScheduledPage{Page: *p, Schedule: schedule}
	}
}

func (d *decoder) audience() {
	u := &atrium.Audience{
		ID:     identifier[atrium.AudienceID](d, "audienceId", strictjson.Optional),
		PageID: identifier[atrium.PageID](d, "pageId", strictjson.Required),
	}
	u.Name, _ = d.Text("name", strictjson.Nullable, anyText)
	u.Archived = d.Bool("archived")
	d.dates(&u.CreatedAt, &u.UpdatedAt)
	d.item.Record = u
}

func (d *decoder) audienceVersion() {
	v := &atrium.AudienceVersion{PageID: identifier[atrium.PageID](d, "pageId", strictjson.Optional)}
	v.ID = identifier[atrium.VersionID](d, "id", strictjson.Optional)
	v.AudienceID = identifier[atrium.AudienceID](d, "audienceId", strictjson.Required)
	v.Number = d.Integer("versionNumber", 1, atrium.MaxVersionNumber)
	v.Archived = d.Bool("archived")
	if v.Published = d.Bool("published"); v.Published && v.Archived {
		d.Fault("published", "must not be true of an archived version")
	}
	v.Note, _ = d.Text("note", strictjson.Nullable, textOf(0, atrium.MaxNote))
	v.Content = compacted(d.Value("content"))
	d.dates(&v.CreatedAt, nil)
	d.item.Record = v
}

func (d *decoder) tombstone() {
	t := &atrium.Tombstone{
		EntryID:   identifier[atrium.EntryID](d, "accountLogId", strictjson.Required),
		AccountID: identifier[atrium.AccountID](d, "accountId", strictjson.Required),
	}
	t.Source, _ = d.Text("source", strictjson.Required, textOf(1, atrium.MaxSource))
	t.Type, _ = d.Text("type", strictjson.Required, textOf(1, atrium.MaxType))
	t.Secret, t.KeyHMAC, t.RequestHMAC = d.hmac("secret"), d.hmac("keyHmac"), d.hmac("requestHmac")
	if len(d.Faults()) == 0 && ((t.Secret == nil) != (t.KeyHMAC == nil) || (t.Secret == nil) != (t.RequestHMAC == nil)) {
		d.Fault("secret", "must be present exactly if keyHmac and requestHmac are")
	}
	if at, ok := d.instant("expiresAt", strictjson.Nullable); ok {
		t.ExpiresAt = &at
	}
	t.CreatedAt, d.item.Created = d.instant("createdAt", strictjson.Required)
	d.item.Record = t
}

// hmac decodes 32 bytes in standard base64, nil if the member is omitted.
func (d *decoder) hmac(name string) (sum []byte) {
	text, ok := d.Text(name, strictjson.Nullable, func(s string) string {
		var err error
		if sum, err = base64.StdEncoding.Strict().DecodeString(s); err != nil || len(sum) != 32 || base64.StdEncoding.EncodeToString(sum) != s {
			return "must be 32 bytes in base64"
		}
		return ""
	})
	if !ok || text == "" {
		return nil
	}
	return sum
}

func (d *decoder) accountLog() {
	e := &atrium.Entry{
		ID:        identifier[atrium.EntryID](d, "accountLogId", strictjson.Optional),
		AccountID: identifier[atrium.AccountID](d, "accountId", strictjson.Required),
	}
	e.Source, _ = d.Text("source", strictjson.Required, textOf(1, atrium.MaxSource))
	e.Type = atrium.DefaultType
	if d.Has("type") {
		e.Type, _ = d.Text("type", strictjson.Required, textOf(1, atrium.MaxType))
	}
	e.Payload = compacted(d.Object.Object("payload", strictjson.Required))
	e.IdempotencyKey, _ = d.Text("idempotencyKey", strictjson.Nullable, textOf(1, atrium.MaxIdempotencyKey))
	if e.IdentifiedByKey = d.Bool("identifiedByKey"); e.IdentifiedByKey && e.IdempotencyKey == "" {
		d.Fault("identifiedByKey", "must not be true without an idempotencyKey")
	}
	if o := d.Inner("claimed", strictjson.Nullable); o != nil {
		e.Claim = claim(&decoder{Object: o})
		o.RejectUnknown()
	}
	if at, ok := d.instant("occurredAt", strictjson.Nullable); ok {
		e.OccurredAt = &at
	}
	if id := identifier[atrium.AccountID](d, "acknowledgedAccountId", strictjson.Nullable); id != e.AccountID {
		e.AcknowledgedID = id
	}
	d.dates(&e.CreatedAt, nil)
	d.item.Record = e
}

func claim(d *decoder) (c atrium.Claim) {
	c.AccountID = identifier[atrium.AccountID](d, "accountId", strictjson.Nullable)
	c.Domain, _ = d.Text("domain", strictjson.Nullable, atrium.CheckDomain)
	c.Name, _ = d.Text("name", strictjson.Nullable, textOf(1, atrium.MaxName))
	return c
}

// compacted returns a value without insignificant white space, nil for nil.
func compacted(v []byte) []byte {
	if v == nil {
		return nil
	}
	return strictjson.Compact(v)
}

// textOf returns a check of the length of a text.
func textOf(least, most int) func(string) string {
	return func(s string) string { return atrium.CheckText(s, least, most) }
}

var anyText = textOf(0, atrium.Unbounded)

func (d *decoder) optionalText(name string, most int) *string {
	text, ok := d.Text(name, strictjson.Nullable, textOf(0, most))
	if !ok {
		return nil
	}
	return &text
}

func identifier[T atrium.Identifier](d *decoder, name string, presence strictjson.Presence) T {
	text, _ := d.Text(name, presence, func(s string) string {
		if _, ok := atrium.ParseID[T](s); !ok {
			var zero T
			return "must be " + zero.Prefix() + " and 26 characters of a-z and 0-9"
		}
		return ""
	})
	return T(text)
}

func (d *decoder) instant(name string, presence strictjson.Presence) (at atrium.Time, ok bool) {
	_, ok = d.Text(name, presence, func(s string) string {
		var err error
		if at, err = atrium.ParseTime(s); err != nil {
			return err.Error()
		}
		return ""
	})
	return at, ok
}

// dates decodes createdAt and, unless updated is nil, updatedAt.
func (d *decoder) dates(created, updated *atrium.Time) {
	*created, d.item.Created = d.instant("createdAt", strictjson.Optional)
	if updated != nil {
		*updated, d.item.Updated = d.instant("updatedAt", strictjson.Optional)
	}
}

// differs returns a function that compares the members of a line with a stored record and returns
// the name of the first member that differs, "" for none. It compares the exported forms, so that
// 12:00Z equals 14:00+02:00.
func differs(line []byte, record store.Record) func(store.Record) string {
	return func(stored store.Record) string {
		want, err := encode(record)
		if err != nil {
			return "kind"
		}
		have, err := encode(stored)
		if err != nil {
			return "kind"
		}
		if bytes.Equal(want, have) {
			return ""
		}
		members, _ := strictjson.Parse(line)
		a, _ := strictjson.Parse(want)
		b, _ := strictjson.Parse(have)
		for _, name := range members.Names() {
			if !bytes.Equal(a.Value(name), b.Value(name)) {
				return name
			}
		}
		return ""
	}
}
