package external

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/appendjson"
	"atrium/internal/canonical"
	"atrium/internal/rest"
)

// What answers say, in the general form.
type (
	describedReceipt struct {
		AccountID    atrium.AccountID `json:"accountId"`
		AccountLogID atrium.EntryID   `json:"accountLogId"`
		CreatedAt    atrium.Time      `json:"createdAt"`
		Source       string           `json:"source"`
		Type         string           `json:"type"`
	}

	describedPage struct {
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

	describedVersion struct {
		ID            atrium.VersionID `json:"id"`
		VersionNumber int64            `json:"versionNumber"`
		CreatedAt     atrium.Time      `json:"createdAt"`
		Archived      *bool            `json:"archived,omitzero"`
	}

	describedVersions struct {
		Items []describedVersion `json:"items"`
		Page  struct {
			HasMore    bool  `json:"hasMore"`
			TotalCount int64 `json:"totalCount"`
		} `json:"page"`
	}
)

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

// same holds what is sent against the general form, byte for byte.
func same(t *rapid.T, got, general any) {
	want, wantErr := rest.Encode(general)
	sent, err := rest.Encode(got)
	if (err != nil) != (wantErr != nil) || err == nil && string(sent) != string(want) {
		t.Fatalf("%+v\nis  %s, %v\nnot %s, %v", general, sent, err, want, wantErr)
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

func TestAnswersAreEncodedAsTheyAreDescribed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.SliceOfN(pagesDrawn, 0, 3).Draw(t, "pages")
		general := rest.List[describedPage]{HasMore: rapid.Bool().Draw(t, "more"), Limit: rapid.IntRange(1, 100).Draw(t, "limit"), NextCursor: texts.Draw(t, "cursor")}
		for i := range pages {
			same(t, (*fullPage)(&pages[i]), describe(&pages[i], false))
			general.Items = append(general.Items, describe(&pages[i], true))
		}
		same(t, &pageList{pages, general.HasMore, general.Limit, general.NextCursor}, general)
	})
	rapid.Check(t, func(t *rapid.T) {
		list := versionList{archived: rapid.Bool().Draw(t, "archived"), more: rapid.Bool().Draw(t, "more"), total: rapid.Int64Min(0).Draw(t, "total")}
		var general describedVersions
		general.Page.HasMore, general.Page.TotalCount = list.more, list.total
		for range rapid.IntRange(0, 3).Draw(t, "versions") {
			v := atrium.Version{
				ID: atrium.NewID[atrium.VersionID](), Number: rapid.Int64Min(1).Draw(t, "number"),
				CreatedAt: times.Draw(t, "created"), Archived: rapid.Bool().Draw(t, "is archived"),
			}
			list.versions = append(list.versions, v)
			d := describedVersion{v.ID, v.Number, v.CreatedAt, nil}
			if list.archived {
				d.Archived = &v.Archived
			}
			general.Items = append(general.Items, d)
		}
		same(t, &list, general)
	})
	rapid.Check(t, func(t *rapid.T) {
		r := receipt{AccountID: atrium.NewID[atrium.AccountID](), EntryID: atrium.NewID[atrium.EntryID](), CreatedAt: times.Draw(t, "created"), Source: texts.Draw(t, "source"), Type: texts.Draw(t, "type")}
		same(t, &r, describedReceipt{r.AccountID, r.EntryID, r.CreatedAt, r.Source, r.Type})
	})
}

func BenchmarkTwentyPages(b *testing.B) {
	page := atrium.Page{
		ID: atrium.NewID[atrium.PageID](), TenantID: atrium.NewID[atrium.TenantID](), BrandID: "brand_1", Name: "A page", Title: "A page",
		Context: strings.Repeat("context ", 20), Status: atrium.PagePublished, Scripts: []byte("[]"),
		Actions:     []byte(`[{"actionId":"action_1","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://example.com/call"}]`),
		FooterLinks: []byte(`[{"id":"company","title":"Company","links":[{"id":"about","text":"About us","url":"https://example.com/about"}]}]`),
	}
	list := &pageList{limit: 20}
	general := rest.List[describedPage]{Limit: 20}
	for range list.limit {
		list.pages = append(list.pages, page)
		general.Items = append(general.Items, describe(&page, true))
	}
	b.Run("appended", func(b *testing.B) {
		var w appendjson.Writer
		b.ReportAllocs()
		for b.Loop() {
			w.Text = w.Text[:0]
			list.AppendTo(&w)
		}
	})
	b.Run("general", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = rest.Encode(general)
		}
	})
}

// BenchmarkDecodeEntry is of a body with a payload of a kilobyte and an idempotency key.
func BenchmarkDecodeEntry(b *testing.B) {
	body := []byte(`{"source":"bench","type":"page.viewed","domain":"company-7.example","idempotencyKey":"0011223344556677-000000000001","payload":{"event":"page.viewed","text":"` + strings.Repeat("x", 988) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		s, err := decodeAccountLog(body, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := canonical.Draft("tenant_1", s); err != nil {
			b.Fatal(err)
		}
	}
}
