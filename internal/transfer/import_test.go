package transfer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/transfer"
)

func TestImportingTwiceAddsNothing(t *testing.T) {
	p := newPlace(t)
	n := len(oneOfEach)
	wantReport(t, p.put(t, oneOfEach...), n, n, 0)
	before := p.export(t)
	wantReport(t, p.put(t, oneOfEach...), n, 0, n)
	wantReport(t, p.put(t, append(oneOfEach, oneOfEach...)...), 2*n, 0, 2*n)
	if after := p.export(t); after != before {
		t.Errorf("exported\n%s\nwant\n%s", after, before)
	}
	wantReport(t, p.empty(t).put(t, append(oneOfEach, oneOfEach...)...), 2*n, n, n)
}

// Accounts of earlier versions may be stored under a legacy form of their domain. A handwritten
// file must not create more of them.
func TestALegacyFormOfADomainIsAcceptedOnlyInALineOfAnExport(t *testing.T) {
	p := newPlace(t)
	old := with(accountLine, "domain", `"https://ab--cd.example"`)
	current := with(with(accountLine, "accountId", `"account_00000000000000000000000002"`), "domain", `"ab--cd.example"`)
	wantReport(t, p.put(t, old, current), 2, 2, 0)
	if file := p.export(t); file != old+"\n"+current+"\n" {
		t.Errorf("exported\n%s\nwant\n%s\n%s", file, old, current)
	}
	wantReport(t, p.put(t, old, current, with(old, "domain", `"HTTPS://AB--CD.example "`)), 3, 0, 3)
	for _, given := range []string{
		`{"kind":"account","domain":"https://ab--cd.example"}`, `{"kind":"account","domain":"ab--cd.example:443"}`,
		strings.Replace(with(old, "domain", `"HTTPS://ab--cd.example"`), accountID, "account_00000000000000000000000009", 1),
	} {
		_, err := p.importFrom(t, strings.NewReader(given), transfer.Options{})
		wantStopped(t, err, 1, 1, "/domain")
	}

	p = p.empty(t)
	wantReport(t, p.put(t, `{"kind":"account","domain":"https://ab--cd.example"}`), 1, 1, 0)
	if file := p.export(t); !strings.Contains(file, `"domain":"ab--cd.example"`) {
		t.Errorf("exported\n%s", file)
	}
}

func TestAMemberThatDiffersIsNamed(t *testing.T) {
	p := newPlace(t)
	p.put(t, oneOfEach...)
	before := p.export(t)
	other := `"2026-01-02T03:04:05.679Z"`
	for _, c := range []struct {
		line    string
		members map[string]string
	}{
		{accountLine, map[string]string{"domain": `"other.example"`, "name": `"Other"`, "createdAt": other, "updatedAt": other}},
		{accountLine, map[string]string{"name": `null`}},
		{prospectLine, map[string]string{"name": `""`, "email": `"x"`, "accountIds": `[]`, "createdAt": other, "updatedAt": other}},
		{brandLine, map[string]string{"name": `"Other"`, "createdAt": other, "updatedAt": other}},
		{pageLine, map[string]string{
			"brandId": `"x"`, "name": `"x"`, "pageContext": `"x"`, "title": `"x"`, "status": `"archived"`, "actions": `[1]`, "scripts": `[{}]`,
			"footerLinks": `[null]`, "headerActionId": `""`, "metadata": `{}`, "deletedAt": other, "publishAt": other, "unpublishAt": other,
		}},
		{audienceLine, map[string]string{"name": `""`, "archived": `true`, "pageId": `"page_00000000000000000000000002"`}},
		{versionLine, map[string]string{"versionNumber": `2`, "archived": `true`, "published": `true`, "note": `"x"`, "content": `{"n":1.5}`, "createdAt": other}},
		{versionLine, map[string]string{"content": `null`, "audienceId": `"audience_00000000000000000000000002"`}},
		{tombstoneLine, map[string]string{
			"accountId": `"account_00000000000000000000000002"`, "source": `"x"`, "type": `"x"`, "expiresAt": other, "createdAt": other,
			"secret": `"` + hmacs + `Q="`, "keyHmac": `"` + hmacs + `Q="`, "requestHmac": `"` + hmacs + `Q="`,
		}},
		{tombstoneLine, map[string]string{"expiresAt": `null`}},
		{entryLine, map[string]string{
			"source": `"x"`, "type": `"x"`, "payload": `{"n":1.5}`, "idempotencyKey": `"x"`, "identifiedByKey": `true`, "claimed": `{"name":"acme.example"}`, "createdAt": other,
			"accountId": `"account_00000000000000000000000002"`, "occurredAt": other, "acknowledgedAccountId": `"account_00000000000000000000000002"`,
		}},
		{entryLine, map[string]string{"idempotencyKey": `null`, "claimed": `null`}},
	} {
		for name, value := range c.members {
			report, err := p.importFrom(t, strings.NewReader(pageLine+"\n\n"+with(c.line, name, value)), transfer.Options{})
			wantStopped(t, err, 3, 1, "/"+name)
			wantReport(t, report, 3, 0, 0)
		}
	}
	if after := p.export(t); after != before {
		t.Errorf("exported\n%s\nwant\n%s", after, before)
	}
}

func TestMissingMembersAreNotCompared(t *testing.T) {
	p := newPlace(t)
	p.put(t, oneOfEach...)
	for _, c := range []struct {
		line    string
		members string
	}{
		{accountLine, "name createdAt updatedAt"},
		{prospectLine, "name accountIds createdAt updatedAt"},
		{pageLine, "createdAt updatedAt"},
		{audienceLine, "name archived createdAt updatedAt"},
		{versionLine, "pageId versionNumber archived content createdAt"},
		{entryLine, "type idempotencyKey claimed createdAt"},
	} {
		line := c.line
		for name := range strings.FieldsSeq(c.members) {
			line = with(line, name, "")
		}
		wantReport(t, p.put(t, line), 1, 0, 1)
	}
}

func TestTheSameInstantInAnotherZoneIsTheSame(t *testing.T) {
	p := newPlace(t)
	p.put(t, oneOfEach...)
	for _, line := range oneOfEach {
		for _, same := range []string{`"2026-01-02T05:04:05.678999+02:00"`, `"2026-01-01T15:04:05.678-12:00"`, `"2026-01-02T03:04:05.678000000Z"`, `"2026-01-02T03:04:05.678-00:00"`} {
			wantReport(t, p.put(t, with(line, "createdAt", same)), 1, 0, 1)
		}
	}
}

func TestReferencedRecordsMustComeFirst(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		member string
		lines  []string
	}{
		{"accountIds", []string{prospectLine, accountLine}},
		{"pageId", []string{audienceLine, pageLine}},
		{"audienceId", []string{pageLine, versionLine, audienceLine}},
		{"accountId", []string{entryLine, accountLine}},
	} {
		bad := len(c.lines) - 1
		_, err := p.importFrom(t, strings.NewReader(strings.Join(c.lines, "\n")), transfer.Options{})
		wantStopped(t, err, bad, 1, "/"+c.member)
	}
	second := with(with(pageLine, "pageId", `"page_00000000000000000000000002"`), "kind", `"page"`)
	p.put(t, pageLine, second, audienceLine)
	_, err := p.importFrom(t, strings.NewReader(with(versionLine, "pageId", `"page_00000000000000000000000002"`)), transfer.Options{})
	wantStopped(t, err, 1, 1, "/pageId")
}

func TestMissingVersionNumbersAreAssignedInOrder(t *testing.T) {
	p := newPlace(t)
	lines := []string{pageLine, audienceLine}
	for i, number := range []string{"", "7", "", "3", ""} {
		line := with(versionLine, "id", fmt.Sprintf(`"version_%026d"`, i+1))
		lines = append(lines, with(line, "versionNumber", number))
	}
	wantReport(t, p.put(t, lines...), 7, 7, 0)
	file := p.export(t)
	for i, number := range []int{1, 7, 8, 3, 9} {
		want := fmt.Sprintf(`"id":"version_%026d","pageId":"%s","audienceId":"%s","versionNumber":%d,`, i+1, pageID, audienceID, number)
		if !strings.Contains(file, want) {
			t.Errorf("exported\n%s\nwant %s", file, want)
		}
	}
	versions, total, err := p.Versions(t.Context(), p.tenant, pageID, audienceID, 0, 9)
	if err != nil || total != 5 || versions[0].Number != 9 {
		t.Errorf("%d versions from number %d, %v", total, versions[0].Number, err)
	}
	wantReport(t, p.put(t, lines...), 7, 0, 7)
}

func TestAnImportUpdatesOnlyDerivedMembers(t *testing.T) {
	p := newPlace(t)
	p.put(t, oneOfEach...)
	p.put(t, with(with(with(entryLine, "accountLogId", `"prospectlog_00000000000000000000000002"`), "idempotencyKey", ""), "createdAt", `"2025-01-01T00:00:00Z"`))
	a, linked, err := p.Account(t.Context(), p.tenant, accountID)
	if err != nil || a.LatestActivityAt == nil || a.LatestActivityAt.String() != "2026-01-02T03:04:05.678Z" || len(linked) != 1 {
		t.Fatalf("account %+v active %s with %v, %v", a, a.LatestActivityAt, linked, err)
	}
	page, err := p.Page(t.Context(), p.tenant, pageID)
	if err != nil || page.AudiencesCount != 1 {
		t.Errorf("page %+v, %v", page, err)
	}
	for _, at := range []atrium.Time{a.UpdatedAt, a.CreatedAt, page.UpdatedAt} {
		if at.String() != "2026-01-02T03:04:05.678Z" {
			t.Errorf("a record was updated at %s", at)
		}
	}
}

func TestAnImportedIdempotencyKeyIsReplayed(t *testing.T) {
	p := newPlace(t)
	p.put(t, oneOfEach...)
	s := atrium.Submission{Source: "crm", Type: "webhook", Payload: []byte(`{"n":15e-1}`), Claim: atrium.Claim{Domain: "acme.example"}, IdempotencyKey: "k"}
	other := s
	other.Payload = []byte(`{"n":2}`)
	outcomes, err := p.Append(t.Context(), []*atrium.Draft{p.draft(t, s), p.draft(t, other)})
	if err != nil {
		t.Fatal(err)
	}
	if r := outcomes[0].Receipt; outcomes[0].Err != nil || !r.Replayed || r.EntryID != entryID || r.AccountID != accountID || r.CreatedAt.String() != "2026-01-02T03:04:05.678Z" {
		t.Errorf("the same request: %+v, %v", r, outcomes[0].Err)
	}
	if atrium.CodeOf(outcomes[1].Err) != atrium.CodeIdempotencyKeyReused {
		t.Errorf("another request: %+v", outcomes[1])
	}
}

// numbered returns the lines of n accounts, numbered from from.
func numbered(from, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"kind":"account","accountId":"account_%026d","domain":"d%d.example"}`, from+i, from+i)
	}
	return lines
}

func TestATransactionIsAtomicAndAnImportCanBeResumed(t *testing.T) {
	p := newPlace(t)
	lines := numbered(1, 1200)
	bad := lines[700]
	for name, broken := range map[string]string{"/domain": `{"kind":"account"}`, "/accountId": with(bad, "accountId", "1")} {
		p := p.empty(t)
		lines[700] = broken
		report, err := p.importFrom(t, strings.NewReader(strings.Join(lines, "\n")), transfer.Options{})
		wantStopped(t, err, 701, 501, name)
		wantReport(t, report, 701, 500, 0)
	}
	lines[700] = with(bad, "domain", `"d1.example"`) // detected by the store, not by the decoder
	file := strings.Join(lines, "\n")
	report, err := p.importFrom(t, strings.NewReader(file), transfer.Options{})
	const stored = 500 + 3*62 // the first chunk, and of the second what precedes the transaction with the line: 8 rows for each account
	wantStopped(t, err, 701, stored+1, "/domain")
	wantReport(t, report, 1000, stored, 0)
	if n := strings.Count(p.export(t), "\n"); n != stored {
		t.Errorf("%d records are stored, want the %d before the transaction that failed", n, stored)
	}

	lines[700] = bad
	file = strings.Join(lines, "\n")
	report, err = p.importFrom(t, strings.NewReader(file), transfer.Options{FromLine: stored + 1})
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	wantReport(t, report, 1200, 1200-stored, 0)
	report, err = p.importFrom(t, strings.NewReader(file), transfer.Options{FromLine: 1201})
	if err != nil {
		t.Fatalf("resume after the end: %v", err)
	}
	wantReport(t, report, 1200, 0, 0)
	if n := strings.Count(p.export(t), "\n"); n != 1200 {
		t.Errorf("%d records are stored, want all", n)
	}
}

func TestSkippedLinesMayHaveAnyContent(t *testing.T) {
	p := newPlace(t)
	junk := io.MultiReader(strings.NewReader("not JSON\n"), &zeros{n: 40 << 20}, strings.NewReader("\n"+accountLine))
	report, err := p.importFrom(t, junk, transfer.Options{FromLine: 3})
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	wantReport(t, report, 3, 1, 0)
}

// zeros is a reader of one line of the given length.
type zeros struct{ n int }

func (z *zeros) Read(p []byte) (int, error) {
	if z.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.n)
	clear(p[:n])
	z.n -= n
	return n, nil
}

func TestAnOverlongLineIsNotBuffered(t *testing.T) {
	p := newPlace(t)
	endless := io.MultiReader(strings.NewReader(accountLine+"\n"), &zeros{n: 1 << 40})
	report, err := p.importFrom(t, endless, transfer.Options{})
	wantStopped(t, err, 2, 1, "")
	wantReport(t, report, 2, 0, 0)
}

func TestBlankLinesAndLineEndsDoNotCount(t *testing.T) {
	p := newPlace(t)
	wantReport(t, p.put(t, "", accountLine+"\r", " \t", "\r", prospectLine+"\r\r", "", ""), 6, 2, 0)
	if n := strings.Count(p.export(t), "\n"); n != 2 {
		t.Errorf("%d records are stored, want 2", n)
	}
}

func TestAFailedReaderOrACanceledContextReportsWhereToResume(t *testing.T) {
	p := newPlace(t)
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader(strings.Join(numbered(1, 600), "\n")+"\n"), failingReader{broken})
	report, err := p.importFrom(t, in, transfer.Options{})
	stop, ok := errors.AsType[*transfer.StopError](err)
	if !ok || !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 601") || stop.ResumeFrom != 501 {
		t.Errorf("error %#v, want the reader's, with its line and the one to resume from", err)
	}
	wantReport(t, report, 601, 500, 0)

	ctx, cancel := context.WithCancel(t.Context())
	lines := strings.Join(numbered(1, 1200), "\n")
	ended := bufio.NewReaderSize(strings.NewReader(lines), 16)
	p = p.empty(t)
	report, err = transfer.Import(ctx, p.Store, p.tenant, &callingReader{ended, 30_000, cancel}, transfer.Options{})
	stop, ok = errors.AsType[*transfer.StopError](err)
	if !ok || !errors.Is(err, context.Canceled) || stop.ResumeFrom != report.Added+1 {
		t.Errorf("error %#v after %d lines were stored, want one that resumes from the next", err, report.Added)
	}
	if n := strings.Count(p.export(t), "\n"); n != report.Added || n%500 != 0 {
		t.Errorf("%d records are stored and %d were reported, want whole chunks", n, report.Added)
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// callingReader calls f when the given number of bytes has been read.
type callingReader struct {
	io.Reader
	left int
	f    func()
}

func (r *callingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left <= 0 {
		r.f()
	}
	return n, err
}

func TestAPageAboveTheLimitIsNotImported(t *testing.T) {
	from := newPlace(t)
	page := func(context string) string {
		return `{"kind":"brand","brandId":"brand_00000000000000000000000001","name":"b"}` + "\n" +
			`{"kind":"page","pageId":"page_00000000000000000000000001","brandId":"brand_00000000000000000000000001","name":"p","title":"","status":"draft","actions":[],"scripts":[],"footerLinks":[],"pageContext":"` + context + `"}` + "\n"
	}
	server := transfer.Options{MaxPage: true, MaxLine: 1<<20 + 64<<10}
	large := strings.Repeat("x", atrium.MaxPageSize)
	_, err := from.importFrom(t, strings.NewReader(page(large)), server)
	if line, ok := errors.AsType[*transfer.LineError](err); !ok || line.Line != 2 || len(line.Faults) != 1 {
		t.Errorf("by a request: %v", err)
	}
	if _, err := from.empty(t).importFrom(t, strings.NewReader(page(large)), transfer.Options{}); err != nil {
		t.Errorf("at the command line: %v", err)
	}
	// A page within the limit can be imported from its export, whatever is escaped there.
	escaped := strings.Repeat(`\u0001\"`, (atrium.MaxPageSize-1000)/8)
	if _, err := from.importFrom(t, strings.NewReader(page(escaped)), server); err != nil {
		t.Fatal(err)
	}
	exported := from.export(t)
	to := from.empty(t)
	if _, err := to.importFrom(t, strings.NewReader(exported), server); err != nil {
		t.Errorf("import an export: %v", err)
	}
	if to.export(t) != exported {
		t.Error("its export differs")
	}
}

func TestImportStoresManyWordsInSeveralTransactions(t *testing.T) {
	p := newPlace(t)
	var name, lines strings.Builder
	for i := range 31 {
		fmt.Fprintf(&name, "w%d ", i)
	}
	const prospects = 200
	for i := range prospects {
		fmt.Fprintf(&lines, `{"kind":"prospect","name":%q}`+"\n", name.String()+strconv.Itoa(i))
	}
	commits, rechecks := 0, 0
	report, err := p.importFrom(t, strings.NewReader(lines.String()), transfer.Options{Limits: transfer.Limits{
		AcquireCommit: func(context.Context) (func(), error) {
			commits++
			return func() {}, nil
		},
		Recheck: func(context.Context) error {
			rechecks++
			return nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantReport(t, report, prospects, prospects, 0)
	const rows = 500
	if least := prospects * 32 / rows; commits < least || rechecks != commits {
		t.Errorf("%d commits, before which the key was checked %d times, want at least %d", commits, rechecks, least)
	}
}

func TestEntryOfAReceiverIsIdentifiedByItsKeyAfterAnImport(t *testing.T) {
	p := newPlace(t)
	keyed := with(entryLine, "identifiedByKey", "true")
	p.put(t, accountLine, keyed)
	if exported := p.export(t); !strings.Contains(exported, `"idempotencyKey":"k","identifiedByKey":true,`) {
		t.Errorf("exported %s", exported)
	}
	changed := atrium.Submission{Source: "crm", Type: "other", Payload: []byte(`{"attempt":2}`), IdempotencyKey: "k"}
	d := canonical.KeyDraft(p.tenant, changed)
	d.ID = atrium.NewID[atrium.EntryID]()
	outcomes, err := p.Append(t.Context(), []*atrium.Draft{d})
	if err != nil || outcomes[0].Err != nil || !outcomes[0].Replayed || string(outcomes[0].EntryID) != entryID {
		t.Errorf("%+v, %v", outcomes, err)
	}
	request, err := canonical.Draft(p.tenant, changed)
	if err != nil {
		t.Fatal(err)
	}
	request.ID = atrium.NewID[atrium.EntryID]()
	outcomes, err = p.Append(t.Context(), []*atrium.Draft{request})
	if err != nil || atrium.CodeOf(outcomes[0].Err) != atrium.CodeIdempotencyKeyReused {
		t.Errorf("%+v, %v", outcomes, err)
	}
}
