package resource_test

import (
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/appendjson"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

func TestAnAccountIsEncodedAsItIsDescribed(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a \"b\"\\", "<\u2028>", "not UTF-8: \xff"}))
	maybe := rapid.Ptr(texts, true)
	times := rapid.Custom(func(t *rapid.T) atrium.Time {
		return atrium.Time(rapid.Int64Range(-62167219200000, 253402300799999).Draw(t, "time") * 1000)
	})
	prospects := rapid.Custom(func(t *rapid.T) atrium.Prospect {
		return atrium.Prospect{
			ID: atrium.NewID[atrium.ProspectID](), TenantID: atrium.NewID[atrium.TenantID](),
			Name: maybe.Draw(t, "name"), Email: maybe.Draw(t, "email"), Domain: maybe.Draw(t, "domain"), Slug: maybe.Draw(t, "slug"),
			PhoneNumber: maybe.Draw(t, "phone"), LinkedinProfileURL: maybe.Draw(t, "profile"),
			CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		account := resource.AccountBody{Account: atrium.Account{
			ID: atrium.NewID[atrium.AccountID](), TenantID: atrium.NewID[atrium.TenantID](), Domain: texts.Draw(t, "domain"), Name: texts.Draw(t, "name"),
			CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"), LatestActivityAt: rapid.Ptr(times, true).Draw(t, "active"),
		}, Linked: rapid.SliceOfN(prospects, 0, 3).Draw(t, "linked")}
		want, wantErr := rest.Encode(resource.NewAccount(account.Account, account.Linked))
		got, err := rest.Encode(&account)
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != string(want) {
			t.Fatalf("is  %s, %v\nnot %s, %v", got, err, want, wantErr)
		}
	})
}

// BenchmarkAccount is one with three prospects.
func BenchmarkAccount(b *testing.B) {
	text := new("a text of some length")
	p := atrium.Prospect{
		ID: atrium.NewID[atrium.ProspectID](), TenantID: atrium.NewID[atrium.TenantID](), Name: text, Email: text, Domain: text, Slug: text, PhoneNumber: text, LinkedinProfileURL: text,
	}
	account := &resource.AccountBody{Account: atrium.Account{
		ID: atrium.NewID[atrium.AccountID](), TenantID: atrium.NewID[atrium.TenantID](), Domain: "acme.example", Name: "Acme",
	}, Linked: []atrium.Prospect{p, p, p}}
	b.Run("appended", func(b *testing.B) {
		var w appendjson.Writer
		b.ReportAllocs()
		for b.Loop() {
			w.Text = w.Text[:0]
			account.AppendTo(&w)
		}
	})
	b.Run("general", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = rest.Encode(resource.NewAccount(account.Account, account.Linked))
		}
	})
	b.Run("tag", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = resource.NewAccountTag(account.Account, account.Linked, nil).String()
		}
	})
}
