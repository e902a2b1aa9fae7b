package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/jsonshape"
	"atrium/internal/transfer"
)

// Valid lines of each kind.
const (
	accountID  = "account_00000000000000000000000001"
	pageID     = "page_00000000000000000000000001"
	audienceID = "audience_00000000000000000000000001"
	entryID    = "prospectlog_00000000000000000000000001"

	accountLine   = `{"kind":"account","accountId":"` + accountID + `","domain":"acme.example","name":"Acme","createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z"}`
	prospectLine  = `{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"Dana","accountIds":["` + accountID + `"],"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z"}`
	mergeLine     = `{"kind":"merge","accountId":"` + accountID + `","into":"account_00000000000000000000000002"}`
	brandLine     = `{"kind":"brand","brandId":"brand_00000000000000000000000001","name":"Acme","createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z"}`
	pageLine      = `{"kind":"page","pageId":"` + pageID + `","brandId":"b","name":"n","pageContext":"c","title":"t","status":"draft","actions":[],"scripts":[],"footerLinks":[],"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z"}`
	audienceLine  = `{"kind":"audience","audienceId":"` + audienceID + `","pageId":"` + pageID + `","name":"a","archived":false,"createdAt":"2026-01-02T03:04:05.678Z","updatedAt":"2026-01-02T03:04:05.678Z"}`
	versionLine   = `{"kind":"audienceVersion","id":"version_00000000000000000000000001","pageId":"` + pageID + `","audienceId":"` + audienceID + `","versionNumber":1,"archived":false,"content":{"n":1.50},"createdAt":"2026-01-02T03:04:05.678Z"}`
	tombstoneLine = `{"kind":"tombstone","accountLogId":"prospectlog_00000000000000000000000009","accountId":"` + accountID + `","source":"crm","type":"webhook",` +
		`"secret":"` + hmacs + `A=","keyHmac":"` + hmacs + `I=","requestHmac":"` + hmacs + `M=","expiresAt":"2026-02-02T03:04:05.678Z","createdAt":"2026-01-02T03:04:05.678Z"}`
	hmacs = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // the beginning of 32 bytes in base64

	entryLine = `{"kind":"accountLog","accountLogId":"` + entryID + `","accountId":"` + accountID + `","source":"crm","type":"webhook","payload":{"n":1.50},"idempotencyKey":"k","claimed":{"domain":"acme.example"},"createdAt":"2026-01-02T03:04:05.678Z"}`
)

var oneOfEach = []string{accountLine, prospectLine, brandLine, pageLine, audienceLine, versionLine, tombstoneLine, entryLine}

// with replaces the value of a member of a line, or removes the member if value is "".
func with(line, name, value string) string {
	key := `"` + name + `":`
	start := strings.Index(line, key)
	if start < 0 {
		return line[:len(line)-1] + "," + key + value + "}"
	}
	end := start + len(key)
	depth, inString := 0, false
	for ; ; end++ {
		c := line[end]
		if c == '"' {
			inString = !inString
		}
		if inString {
			continue
		}
		if depth == 0 && (c == ',' || c == '}') {
			break
		}
		if c == '{' || c == '[' {
			depth++
		}
		if c == '}' || c == ']' {
			depth--
		}
	}
	switch {
	case value == "" && start == 1: // the first
		return line[:start] + line[end+1:]
	case value == "":
		return line[:start-1] + line[end:]
	}
	return line[:start] + key + value + line[end:]
}

func TestEveryViolatedConstraintIsNamed(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("😀", n) + `"` }
	id := func(prefix string) []string {
		return []string{
			`"` + prefix + `0000000000000000000000000"`, `"` + prefix + `000000000000000000000000000"`, `"` + prefix + `0000000000000000000000000A"`,
			`"` + prefix + `0000000000000000000000000é"`, `"other_00000000000000000000000001"`, `""`, `1`, `["` + prefix + `00000000000000000000000001"]`,
		}
	}
	instants := []string{`"2026-01-02"`, `"2026-01-02T03:04:05"`, `"2026-02-29T00:00:00Z"`, `"2026-01-02 03:04:05Z"`, `"2026-01-02T24:00:00Z"`, `"0000-01-01T00:00:00+00:01"`, `"9999-12-31T23:59:59-00:01"`, `""`, `null`, `1767323045678`}
	notText := []string{`1`, `true`, `{}`, `["x"]`}
	p := newPlace(t)
	text := func(more ...string) []string { return append(more, notText...) }
	for _, c := range []struct {
		line, member string
		values       []string
	}{
		{accountLine, "accountId", append(id("account_"), `null`)},
		{mergeLine, "accountId", append(id("account_"), `null`)},
		{mergeLine, "into", append(id("account_"), `null`)},
		{accountLine, "domain", text(`""`, `" "`, `"\u3000\t"`, `"a\u0000b"`, `null`)},
		{accountLine, "name", text(`""`, long(256), `"\u0000"`)},
		{accountLine, "createdAt", instants},
		{accountLine, "updatedAt", instants},
		{accountLine, "latestActivityAt", []string{`null`, `"2026-01-02T03:04:05.678Z"`}}, // derived from the entries
		{accountLine, "tenantId", []string{`"tenant_00000000000000000000000001"`}},
		{accountLine, "Domain", []string{`"acme.example"`}},
		{prospectLine, "prospectId", append(id("prospect_"), `null`)},
		{prospectLine, "name", text(`"\u0000"`, long(2001))},
		{prospectLine, "email", text(`"\u0000"`, long(2001))},
		{prospectLine, "domain", text(`"\u0000"`, long(2001))},
		{prospectLine, "slug", text(`"\u0000"`, long(2001))},
		{prospectLine, "phoneNumber", text(`"\u0000"`, long(2001))},
		{prospectLine, "linkedinProfileUrl", text(`"\u0000"`, long(2001))},
		{prospectLine, "accountIds", []string{`null`, `"` + accountID + `"`, `[1]`, `[null]`, `["account_1"]`, `["page_00000000000000000000000001"]`, `{}`, accountsTo(atrium.MaxLinks + 1)}},
		{prospectLine, "accountDomain", text(`""`, `" "`, `"a\u0000b"`)},
		{with(with(prospectLine, "prospectId", ""), "email", `"a@b.example"`), "matchBy", text(`""`, `"Email"`, `"name"`, long(2000), `"prospectId"`)},
		{prospectLine, "matchBy", []string{`"email"`, `"values"`}},                                  // and prospectId
		{with(prospectLine, "prospectId", ""), "matchBy", []string{`"email"`}},                      // without one
		{with(with(prospectLine, "prospectId", ""), "email", `""`), "matchBy", []string{`"email"`}}, // or an empty one
		{prospectLine, "createdAt", instants},
		{brandLine, "brandId", append(id("brand_"), `null`)},
		{brandLine, "name", text(`""`, long(256), `"\u0000"`, `null`)},
		{brandLine, "createdAt", instants},
		{brandLine, "tenantId", []string{`"tenant_00000000000000000000000001"`}},
		{pageLine, "pageId", append(id("page_"), `null`)},
		{pageLine, "brandId", text(`""`, `"\u0000"`, `null`)},
		{pageLine, "name", text(`"\u0000"`, `null`)},
		{pageLine, "pageContext", text(`"\u0000"`, `null`)},
		{pageLine, "title", text(`"\u0000"`, `null`)},
		{pageLine, "status", text(`""`, `"Draft"`, `"deleted"`, `null`)},
		{pageLine, "actions", []string{`null`, `{}`, `"[]"`}},
		{pageLine, "scripts", []string{`null`, `{}`, `"[]"`}},
		{pageLine, "footerLinks", []string{`null`, `{}`, `"[]"`}},
		{pageLine, "headerActionId", text(`"\u0000"`)},
		{pageLine, "deletedAt", instants[:8]},
		{pageLine, "publishAt", instants[:8]},
		{pageLine, "unpublishAt", instants[:8]},
		{with(pageLine, "publishAt", `"2026-01-02T03:04:05.678Z"`), "unpublishAt", []string{`"2026-01-02T03:04:05.678Z"`, `"2026-01-01T00:00:00Z"`}},
		{pageLine, "audiencesCount", []string{`1`}}, // derived from the audiences
		{audienceLine, "audienceId", append(id("audience_"), `null`)},
		{audienceLine, "pageId", append(id("page_"), `null`)},
		{audienceLine, "name", text(`"\u0000"`)},
		{audienceLine, "archived", []string{`null`, `0`, `"false"`, `{}`}},
		{audienceLine, "updatedAt", instants},
		{versionLine, "id", append(id("version_"), `null`)},
		{versionLine, "pageId", append(id("page_"), `null`)},
		{versionLine, "audienceId", append(id("audience_"), `null`)},
		{versionLine, "versionNumber", []string{`0`, `-1`, `-0.0`, `1.5`, `1e-1`, `1e16`, `1e999999999`, `9007199254740992`, `99999999999999999999`, `"1"`, `null`}},
		{versionLine, "archived", []string{`null`, `1`}},
		{versionLine, "published", []string{`null`, `1`, `"true"`}},
		{with(versionLine, "archived", `true`), "published", []string{`true`}},
		{versionLine, "note", text(long(1001), `"\u0000"`)},
		{versionLine, "createdAt", instants},
		{versionLine, "updatedAt", []string{`"2026-01-02T03:04:05.678Z"`}},
		{tombstoneLine, "accountLogId", append(id("prospectlog_"), `null`)},
		{tombstoneLine, "accountId", append(id("account_"), `null`)},
		{tombstoneLine, "source", text(`""`, long(101), `null`)},
		{tombstoneLine, "type", text(`""`, long(101), `null`)},
		{tombstoneLine, "secret", []string{`1`, `""`, `"AA=="`, `"` + hmacs + `B="`, `"` + hmacs + `A"`, `"` + hmacs + `A=\n"`, `null`, ``}},
		{tombstoneLine, "keyHmac", []string{`1`, `""`, `"` + hmacs + `AA"`}},
		{tombstoneLine, "requestHmac", []string{`1`, `""`, `"` + hmacs + `AA"`}},
		{tombstoneLine, "expiresAt", instants[:8]},
		{tombstoneLine, "createdAt", instants},
		{tombstoneLine, "payload", []string{`{}`}},
		{entryLine, "accountLogId", append(id("prospectlog_"), `null`)},
		{entryLine, "accountId", append(id("account_"), `null`)},
		{entryLine, "source", text(`""`, long(101), `"\u0000"`, `null`)},
		{entryLine, "type", text(`""`, long(101), `"\u0000"`, `null`)},
		{entryLine, "payload", []string{`null`, `[]`, `"{}"`, `1`}},
		{entryLine, "idempotencyKey", text(`""`, long(256), `"\u0000"`)},
		{entryLine, "identifiedByKey", []string{`1`, `"true"`, `null`}},
		{with(entryLine, "idempotencyKey", ""), "identifiedByKey", []string{`true`}},
		{entryLine, "claimed", []string{`[]`, `"x"`, `1`}},
		{entryLine, "createdAt", instants},
		{entryLine, "occurredAt", instants[:8]},
		{entryLine, "acknowledgedAccountId", id("account_")},
		{entryLine, "fingerprint", []string{`"x"`}},
	} {
		for _, value := range c.values {
			report, err := p.importFrom(t, strings.NewReader("\n"+with(c.line, c.member, value)), transfer.Options{})
			wantStopped(t, err, 2, 2, "/"+c.member)
			if message := err.Error(); !strings.Contains(message, "line 2") || !strings.Contains(message, c.member) {
				t.Errorf("the message does not name the line and the member: %s", message)
			}
			wantReport(t, report, 2, 0, 0)
		}
	}
	if file := p.export(t); file != "" {
		t.Errorf("invalid lines stored %s", file)
	}
}

func TestRequiredMembersMustBePresent(t *testing.T) {
	p := newPlace(t)
	for line, needed := range map[string][]string{
		accountLine:  {"domain"},
		pageLine:     {"brandId", "name", "pageContext", "title", "status", "actions", "scripts", "footerLinks"},
		audienceLine: {"pageId"},
		versionLine:  {"audienceId"},
		entryLine:    {"accountId", "source", "payload"},

		tombstoneLine: {"accountLogId", "accountId", "source", "type", "createdAt"},
	} {
		for _, name := range append(needed, "kind") {
			_, err := p.importFrom(t, strings.NewReader(with(line, name, "")), transfer.Options{})
			wantStopped(t, err, 1, 1, "/"+name)
		}
	}
}

func TestAllFaultsOfALineAreReportedTogether(t *testing.T) {
	p := newPlace(t)
	line := with(with(with(with(entryLine, "source", `""`), "createdAt", `"today"`), "extra~/", "1"), "claimed", `{"accountId":"x","domain":" ","name":"","more":1}`)
	_, err := p.importFrom(t, strings.NewReader(line), transfer.Options{})
	wantStopped(t, err, 1, 1,
		"/source", "/claimed/accountId", "/claimed/domain", "/claimed/name", "/claimed/more", "/createdAt", "/extra~0~1")
	for _, secret := range []string{"today", "acme"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the message repeats what was sent: %v", err)
		}
	}
}

func TestALineMustBeStrictJSON(t *testing.T) {
	p := newPlace(t)
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for line, where := range map[string]string{
		"x":                                     "",
		"[]":                                    "",
		"null":                                  "",
		`"text"`:                                "",
		"\ufeff" + accountLine:                  "",
		accountLine + accountLine:               "",
		accountLine + ",":                       "",
		accountLine[:len(accountLine)-1]:        "",
		`{"kind":1}`:                            "/kind",
		`{"kind":null}`:                         "/kind",
		`{"kind":""}`:                           "/kind",
		`{"kind":"Account"}`:                    "/kind",
		`{"kind":"key","keyId":"x"}`:            "/kind",
		with(accountLine, "Name", `1,"Name":2`): "/Name",
		with(entryLine, "payload", `{"a":{"b":1,"\u0062":2}}`): "/payload/a/b",
		with(entryLine, "payload", `{"a":"\ud800"}`):           "/payload/a",
		with(entryLine, "payload", "{\"a\":\"\xff\"}"):         "/payload/a",
		with(entryLine, "payload", `{"a":01}`):                 "/payload",
		with(entryLine, "payload", `{"a":NaN}`):                "/payload/a",
		with(entryLine, "payload", "{\"a\":\"\x01\"}"):         "/payload/a",
		with(entryLine, "payload", `{"a":`+deep+`}`):           "/payload/a" + strings.Repeat("/0", 61),
	} {
		_, err := p.importFrom(t, strings.NewReader(line), transfer.Options{})
		wantStopped(t, err, 1, 1, where)
	}
}

func TestValuesAtTheirLimitAreValid(t *testing.T) {
	p := newPlace(t)
	long := func(n int) string { return `"` + strings.Repeat("😀", n) + `"` }
	deep := strings.Repeat("[", 62) + strings.Repeat("]", 62)
	p.put(t,
		with(accountLine, "name", long(255)),
		with(with(prospectLine, "accountIds", `["`+accountID+`","`+accountID+`"]`), "slug", long(2000)), // a set
		with(prospectLine, "accountIds", `["`+accountID+`"`+strings.Repeat(`,"`+accountID+`"`, atrium.MaxLinks)+`]`),
		with(pageLine, "deletedAt", `"9999-12-31T23:59:59.999999999Z"`),
		audienceLine,
		with(versionLine, "versionNumber", "0.9007199254740991e16"),
		with(with(with(with(entryLine, "source", long(100)), "type", long(100)), "idempotencyKey", long(255)), "payload", `{"a":`+deep+`}`),
	)
	if file := p.export(t); strings.Count(file, "😀") != 255+2000+100+100+255 || !strings.Contains(file, `["`+accountID+`"]`) || !strings.Contains(file, "9007199254740991") {
		t.Errorf("exported\n%s", file)
	}
}

func TestMissingAndNullMembersHaveDefaults(t *testing.T) {
	p := newPlace(t)
	p.put(t,
		`{"kind":"account","accountId":"`+accountID+`","domain":"HTTPS://Acme.Example/","name":null,"createdAt":"2026-01-02T03:04:05.6789+02:00"}`,
		with(with(with(prospectLine, "name", "null"), "accountIds", ""), "email", `""`),
		with(with(with(pageLine, "metadata", "null"), "headerActionId", "null"), "deletedAt", "null"),
		with(with(audienceLine, "name", "null"), "archived", ""),
		with(with(versionLine, "content", "null"), "pageId", ""),
		with(with(with(entryLine, "type", ""), "idempotencyKey", "null"), "claimed", `{"accountId":null,"domain":null}`),
	)
	want := strings.Join([]string{
		`{"kind":"account","accountId":"` + accountID + `","domain":"acme.example","createdAt":"2026-01-02T01:04:05.678Z","updatedAt":"2026-01-02T01:04:05.678Z"}`,
		with(with(with(prospectLine, "name", ""), "accountIds", "[]"), "prospectId", `"prospect_00000000000000000000000001","email":""`),
		pageLine,
		with(audienceLine, "name", `""`),
		with(versionLine, "content", "null"),
		with(with(entryLine, "idempotencyKey", ""), "claimed", ""),
	}, "\n") + "\n"
	if got := p.export(t); got != want {
		t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
}

// accountsTo returns a JSON array of account identifiers.
func accountsTo(n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"account_%026d"`, i+1)
	}
	return "[" + strings.Join(ids, ",") + "]"
}

func TestTheNumberOfReportedFaultsOfALineIsLimited(t *testing.T) {
	p := newPlace(t)
	line := jsonshape.Extend([]byte(`{"kind":"account"}`), jsonshape.Wide(1<<20))
	_, err := p.importFrom(t, bytes.NewReader(line), transfer.Options{})
	stopped, ok := errors.AsType[*transfer.LineError](err)
	if !ok || len(stopped.Faults) != atrium.MaxFaults || stopped.Faults[0].Where != "/domain" || stopped.Faults[1].Where != "/0000" {
		t.Fatalf("stopped by %.300v", err)
	}
}

func TestTheNumberOfMemberNamesOfALineIsLimited(t *testing.T) {
	p := newPlace(t)
	p.put(t, accountLine)
	const most, others = 500_000, 4 // the members of the line
	line := func(names int) string {
		objects := strings.Repeat(`{"a":":","b":"\\\":"},`, names/2) + strings.Repeat(`{"a":0},`, names%2)
		return `{"kind":"accountLog","accountId":"` + accountID + `","source":"crm","payload":{"l":[` + strings.TrimSuffix(objects, ",") + `]}}`
	}
	p.put(t, line(most-others-1))
	_, err := p.importFrom(t, strings.NewReader(line(most-others)), transfer.Options{})
	wantStopped(t, err, 1, 1, "")
	if err == nil || !strings.Contains(err.Error(), "500,000 field names") {
		t.Errorf("stopped by %v", err)
	}
}
