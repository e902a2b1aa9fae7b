package transfer_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/transfer"
)

func TestAnImportRoundTripsByteForByte(t *testing.T) {
	p := newPlace(t)
	rapid.Check(t, func(t *rapid.T) {
		lines := tenantLines(t)
		var want, written strings.Builder
		for _, l := range lines {
			want.WriteString(l.exported() + "\n")
			written.WriteString(l.written(t) + rapid.SampledFrom([]string{"\n", "\r\n", "\n\n", "\n \t\r\n"}).Draw(t, "end"))
		}
		first, second := p.empty(t), p.empty(t)
		report := first.put(t, written.String())
		if report.Added != len(lines) || report.Same != 0 {
			t.Fatalf("report %+v for %d lines", report, len(lines))
		}
		got := first.export(t)
		if got != want.String() {
			t.Fatalf("exported\n%s\nwant\n%s", got, want.String())
		}
		wantReport(t, second.put(t, strings.TrimSuffix(got, "\n")), len(lines), len(lines), 0)
		if again := second.export(t); again != got {
			t.Fatalf("exported again\n%s\nwant\n%s", again, got)
		}
		wantReport(t, second.put(t, strings.TrimSuffix(got, "\n")), len(lines), 0, len(lines))
		if report := second.put(t, written.String()); report.Added != 0 || report.Same != len(lines) {
			t.Fatalf("imported in an equivalent form: %+v", report)
		}
		if again := second.export(t); again != got {
			t.Fatalf("exported after importing it twice\n%s\nwant\n%s", again, got)
		}
	})
}

func TestAppendedEntriesRoundTrip(t *testing.T) {
	p := newPlace(t)
	var drafts []*atrium.Draft
	for _, s := range []atrium.Submission{
		{Source: "crm", Type: "t", Payload: []byte("{ \"b\" : 1.50 ,\n\"a\":[ ] }"), Claim: atrium.Claim{Domain: "https://WWW.Acme.example", Name: "Acme"}, IdempotencyKey: "k1"},
		{Source: "\u2028<", Type: "\"", Payload: []byte(`{"s":"\u0000"}`), Claim: atrium.Claim{Name: "ACME"}, IdempotencyKey: strings.Repeat("😀", 255)},
		{Source: "crm", Type: "t", Payload: []byte(`{}`)},
	} {
		drafts = append(drafts, p.draft(t, s))
	}
	outcomes, err := p.Append(t.Context(), drafts)
	if err != nil {
		t.Fatal(err)
	}
	file := p.export(t)
	if !strings.Contains(file, `"payload":{"b":1.50,"a":[]}`) || !strings.Contains(file, `"claimed":{"domain":"https://WWW.Acme.example","name":"Acme"}`) {
		t.Errorf("exported\n%s", file)
	}
	other := p.empty(t)
	other.put(t, file)
	if again := other.export(t); again != file {
		t.Errorf("exported again\n%s\nwant\n%s", again, file)
	}

	// A sender that retries after the move gets its original receipt.
	for i := range drafts {
		drafts[i] = other.draft(t, drafts[i].Submission)
	}
	replayed, err := other.Append(t.Context(), drafts[:2])
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range replayed {
		want := outcomes[i].Receipt
		want.Replayed = true
		if o.Err != nil || o.Receipt != want {
			t.Errorf("draft %d: %+v, %v, want %+v", i, o.Receipt, o.Err, want)
		}
	}
}

func TestAnEmptyTenantIsAnEmptyExport(t *testing.T) {
	p := newPlace(t)
	if file := p.export(t); file != "" {
		t.Errorf("exported %q", file)
	}
	wantReport(t, p.put(t), 0, 0, 0)
}

func TestAMissingTenantIsNotFound(t *testing.T) {
	p := newPlace(t)
	p.tenant = atrium.NewID[atrium.TenantID]()
	_, exported := transfer.Export(t.Context(), p.Store, p.tenant, &strings.Builder{})
	_, imported := p.importFrom(t, strings.NewReader(""), transfer.Options{})
	_, checked := p.importFrom(t, strings.NewReader(""), transfer.Options{Check: true})
	for _, err := range []error{exported, imported, checked} {
		if atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("error %v, want NotFound", err)
		}
	}
}
