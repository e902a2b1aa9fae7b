package external

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// describedPage and the types below are pages and versions for the general encoder.
type describedPage struct {
	PageID         atrium.PageID      `json:"pageId"`
	TenantID       atrium.TenantID    `json:"tenantId"`
	BrandID        string             `json:"brandId"`
	Name           string             `json:"name"`
	PageContext    string             `json:"pageContext"`
	Title          *string            `json:"title,omitzero"`
	Status         *atrium.PageStatus `json:"status,omitzero"`
	Actions        jsontext.Value     `json:"actions"`
	Scripts        jsontext.Value     `json:"scripts"`
	FooterLinks    jsontext.Value     `json:"footerLinks"`
	AudiencesCount int64              `json:"audiencesCount"`
	CreatedAt      atrium.Time        `json:"createdAt"`
	UpdatedAt      atrium.Time        `json:"updatedAt"`
	DeletedAt      *atrium.Time       `json:"deletedAt"`
	HeaderActionID *string            `json:"headerActionId,omitzero"`
	Metadata       jsontext.Value     `json:"metadata,omitzero"`
}

type describedVersion struct {
	ID            atrium.VersionID `json:"id"`
	VersionNumber int64            `json:"versionNumber"`
	CreatedAt     atrium.Time      `json:"createdAt"`
	Archived      *bool            `json:"archived,omitzero"`
}

type describedVersions struct {
	Items []describedVersion `json:"items"`
	Page  struct {
		HasMore    bool  `json:"hasMore"`
		TotalCount int64 `json:"totalCount"`
	} `json:"page"`
}

func describe(p *atrium.Page, listed bool) describedPage {
	d := describedPage{
		PageID: p.ID, TenantID: p.TenantID, BrandID: p.BrandID, Name: p.Name, PageContext: p.Context,
		Actions: p.Actions, Scripts: p.Scripts, FooterLinks: p.FooterLinks, AudiencesCount: p.AudiencesCount,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, DeletedAt: p.DeletedAt, HeaderActionID: p.HeaderActionID,
	}
	if listed {
		d.Title, d.Status = &p.Title, &p.Status
	} else {
		d.Metadata = p.Metadata
	}
	return d
}

// wantSame compares encoded JSON with that of the general encoder, byte for byte.
func wantSame(t *rapid.T, got rest.Encoded, err error, general any) {
	want, wantErr := rest.Encode(general)
	if (err != nil) != (wantErr != nil) || err == nil && string(got) != string(want) {
		t.Fatalf("%+v\nis  %s, %v\nnot %s, %v", general, got, err, want, wantErr)
	}
}

var (
	texts = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a \"b\"\\", "<\u2028>", "\x00\n", strings.Repeat("long ", 50), "not UTF-8: \xff"}))
	times = rapid.Custom(func(t *rapid.T) atrium.Time {
		return atrium.Time(rapid.Int64Range(-62167219200000, 253402300799999).Draw(t, "time") * 1000)
	})
	values = rapid.Custom(func(t *rapid.T) []byte {
		return []byte(rapid.SampledFrom([]string{`[]`, `[ ]`, `[{"a":"b c"}]`, `[{"a": "b c"}]`, "[\n]", `["\" "]`, `{}`, `1.0`}).Draw(t, "value"))
	})
	pagesDrawn = rapid.Custom(func(t *rapid.T) atrium.Page {
		p := atrium.Page{
			ID: atrium.NewID[atrium.PageID](), TenantID: atrium.NewID[atrium.TenantID](), BrandID: texts.Draw(t, "brand"), Name: texts.Draw(t, "name"),
			Context: texts.Draw(t, "context"), Title: texts.Draw(t, "title"), Status: rapid.SampledFrom(atrium.PageStatuses()).Draw(t, "status"),
			Actions: values.Draw(t, "actions"), Scripts: values.Draw(t, "scripts"), FooterLinks: values.Draw(t, "links"),
			AudiencesCount: rapid.Int64Min(0).Draw(t, "count"), CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"),
			DeletedAt: rapid.Ptr(times, true).Draw(t, "deleted"), HeaderActionID: rapid.Ptr(texts, true).Draw(t, "header"),
		}
		if rapid.Bool().Draw(t, "has metadata") {
			p.Metadata = values.Draw(t, "metadata")
		}
		return p
	})
)

func TestPagesAreEncodedAsByTheGeneralEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.SliceOfN(pagesDrawn, 0, 3).Draw(t, "pages")
		limit, cursor := rapid.IntRange(1, 100).Draw(t, "limit"), texts.Draw(t, "cursor")
		general := rest.List[describedPage]{HasMore: cursor != "", Limit: limit, NextCursor: cursor}
		for i := range pages {
			got, err := encodePage(&pages[i])
			wantSame(t, got, err, describe(&pages[i], false))
			general.Items = append(general.Items, describe(&pages[i], true))
		}
		got, err := encodePages(pages, limit, cursor)
		wantSame(t, got, err, general)
	})
}

func TestVersionsAreEncodedAsByTheGeneralEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var general describedVersions
		general.Page.HasMore, general.Page.TotalCount = rapid.Bool().Draw(t, "more"), rapid.Int64Min(0).Draw(t, "total")
		var versions []atrium.Version
		withArchived := rapid.Bool().Draw(t, "archived")
		for range rapid.IntRange(0, 3).Draw(t, "versions") {
			v := atrium.Version{
				ID: atrium.NewID[atrium.VersionID](), Number: rapid.Int64Min(1).Draw(t, "number"),
				CreatedAt: times.Draw(t, "created"), Archived: rapid.Bool().Draw(t, "is archived"),
			}
			versions = append(versions, v)
			d := describedVersion{v.ID, v.Number, v.CreatedAt, nil}
			if withArchived {
				d.Archived = &v.Archived
			}
			general.Items = append(general.Items, d)
		}
		got, err := encodeVersions(versions, withArchived, general.Page.HasMore, general.Page.TotalCount)
		wantSame(t, got, err, general)
	})
}

func FuzzStoredValuesAreEncodedAsByTheGeneralEncoder(f *testing.F) {
	for _, v := range []string{
		`[]`, ` [ ] `, `"a b"`, `"a" `, `{"a b": 1}`, `{"a b":1}`, `{"a b":1 }`, `["a b","c d"]`, `["a b", "c d"]`, "[1,\n2]", "[1,\t2]", "[1\r]",
		`["\" "]`, `["\\" ]`, `["\\ ","a"]`, `[" ", " "]`, `[" "," "]`, `{" ":[" ",{" ":" "}]}`, `[1e999,1.0,-0]`, `["\u0000\/"]`, `null`, `"é 漢 "`,
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		o, err := strictjson.Parse(append(append([]byte(`{"v":`), v...), '}'))
		if err != nil || len(o.Names()) != 1 {
			return // would not have been stored
		}
		want, err := rest.Encode(jsontext.Value(v))
		if err != nil {
			t.Fatal(err)
		}
		var e encoder
		if e.value("", v); string(e.json) != string(want) {
			t.Fatalf("%q is %q, want %q", v, e.json, want)
		}
	})
}

func BenchmarkTwentyPages(b *testing.B) {
	page := atrium.Page{
		ID: atrium.NewID[atrium.PageID](), TenantID: atrium.NewID[atrium.TenantID](), BrandID: "brand_1", Name: "A page", Title: "A page",
		Context: strings.Repeat("context ", 20), Status: atrium.PagePublished, Scripts: []byte("[]"),
		Actions:     []byte(`[{"actionId":"action_1","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://example.com/call"}]`),
		FooterLinks: []byte(`[{"id":"company","title":"Company","links":[{"id":"about","text":"About us","url":"https://example.com/about"}]}]`),
	}
	const limit = 20
	pages := slices.Repeat([]atrium.Page{page}, limit)
	general := rest.List[describedPage]{Limit: limit, Items: slices.Repeat([]describedPage{describe(&page, true)}, limit)}
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = encodePages(pages, limit, "")
		}
	})
	b.Run("general", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = rest.Encode(general)
		}
	})
}

// BenchmarkDecodeEntry decodes a body with a payload of 1 KB and an idempotency key.
func BenchmarkDecodeEntry(b *testing.B) {
	body := []byte(`{"source":"bench","type":"page.viewed","domain":"company-7.example","idempotencyKey":"0011223344556677-000000000001","payload":{"event":"page.viewed","text":"` + strings.Repeat("x", 988) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		s, err := decodeAccountLog(body, nil, new(rest.Request).IgnoreUnknown)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := canonical.Draft("tenant_1", s); err != nil {
			b.Fatal(err)
		}
	}
}
