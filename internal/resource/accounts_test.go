package resource_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/resource"
	"atrium/internal/rest"
)

// An account has prospects that are linked to it.
type account struct {
	atrium.Account
	linked []atrium.Prospect
}

// accounts generates accounts with any texts and times.
var accounts = rapid.Custom(func(t *rapid.T) account {
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
	return account{Account: atrium.Account{
		ID: atrium.NewID[atrium.AccountID](), TenantID: atrium.NewID[atrium.TenantID](), Domain: texts.Draw(t, "domain"), Name: texts.Draw(t, "name"),
		CreatedAt: times.Draw(t, "created"), UpdatedAt: times.Draw(t, "updated"), LatestActivityAt: rapid.Ptr(times, true).Draw(t, "active"),
	}, linked: rapid.SliceOfN(prospects, 0, 3).Draw(t, "linked")}
})

// streamed returns an account with a stream of its prospects, repeated.
func streamed(a account, times int) (atrium.AccountDetail, account) {
	a.linked = slices.Repeat(a.linked, times)
	return atrium.AccountDetail{Account: a.Account, More: true, Stream: func(each func(*atrium.Prospect) error) error {
		for _, p := range a.linked {
			if err := each(&p); err != nil {
				return err
			}
		}
		return nil
	}}, a
}

func TestStreamedAccountHasTheSameBytesAndTag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, account := streamed(accounts.Draw(t, "account"), rapid.SampledFrom([]int{1, 500}).Draw(t, "times"))
		if rapid.Bool().Draw(t, "merged") {
			d.Merged = []atrium.MergedAccount{{ID: atrium.NewID[atrium.AccountID](), Domain: "acme.example", MergedInto: d.ID}}
		}
		want, wantErr := rest.Encode(resource.NewAccount(account.Account, account.linked))
		wantTag := resource.NewAccountTag(account.Account, account.linked, nil)
		var got bytes.Buffer
		tag, err := resource.WriteAccount(&got, &d, nil, nil)
		if (err != nil) != (wantErr != nil) || err == nil && (got.String() != string(want) || tag != wantTag) {
			t.Fatalf("got  %s with %s, %v\nwant %s with %s, %v", got.String(), tag, err, want, wantTag, wantErr)
		}
		wantTag = resource.NewAccountTag(account.Account, account.linked, d.Merged)
		if tag, err := resource.DetailTag(&d, d.EachMerged); err != nil || tag != wantTag {
			t.Fatalf("DetailTag returned %s, %v, want %s", tag, err, wantTag)
		}
	})
}

func TestStreamedAccountReturnsErrorsOfReaderAndWriter(t *testing.T) {
	broken := errors.New("broken")
	d, _ := streamed(account{linked: []atrium.Prospect{{Name: new("a text of some length")}}}, 2_000)
	pipe, w := io.Pipe()
	_ = pipe.CloseWithError(broken)
	if _, err := resource.WriteAccount(w, &d, nil, nil); !errors.Is(err, broken) {
		t.Errorf("the writer is broken: %v", err)
	}
	d.Stream = func(func(*atrium.Prospect) error) error { return broken }
	if _, err := resource.WriteAccount(io.Discard, &d, nil, nil); !errors.Is(err, broken) {
		t.Errorf("the reader is broken: %v", err)
	}
	if _, err := resource.DetailTag(&d, nil); !errors.Is(err, broken) {
		t.Errorf("the reader is broken: %v", err)
	}
	d.Stream = nil
	if _, err := resource.DetailTag(&d, nil); err == nil {
		t.Error("no error for prospects that cannot be read")
	}
}

// BenchmarkAccount encodes and tags an account with three prospects.
func BenchmarkAccount(b *testing.B) {
	text := new("a text of some length")
	p := atrium.Prospect{
		ID: atrium.NewID[atrium.ProspectID](), TenantID: atrium.NewID[atrium.TenantID](), Name: text, Email: text, Domain: text, Slug: text, PhoneNumber: text, LinkedinProfileURL: text,
	}
	a := account{Account: atrium.Account{
		ID: atrium.NewID[atrium.AccountID](), TenantID: atrium.NewID[atrium.TenantID](), Domain: "acme.example", Name: "Acme",
	}, linked: []atrium.Prospect{p, p, p}}
	b.Run("body", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = rest.Encode(resource.NewAccount(a.Account, a.linked))
		}
	})
	b.Run("tag", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = resource.NewAccountTag(a.Account, a.linked, nil).String()
		}
	})
}
