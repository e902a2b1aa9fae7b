package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/jsonshape"
	"atrium/internal/store"
)

func FuzzImportLine(f *testing.F) {
	for _, line := range []string{
		`{"kind":"account","accountId":"account_00000000000000000000000001","domain":"HTTPS://www.Acme.example/","name":null,"createdAt":"2026-01-02T03:04:05.6789+02:00"}`,
		`{"kind":"prospect","name":"","accountIds":["account_00000000000000000000000002","account_00000000000000000000000001"],"updatedAt":"2026-01-02T03:04:05Z"}`,
		`{"kind":"page","brandId":"b","name":"\u2028","pageContext":"<","title":"","status":"draft","actions":[ 1.50 ],"scripts":[{"b":1,"a":-0}],"footerLinks":["\u0000"],"metadata":1E400}`,
		`{"kind":"audience","pageId":"page_00000000000000000000000001","archived":true}`,
		`{"kind":"audienceVersion","audienceId":"audience_00000000000000000000000001","versionNumber":9007199254740991,"content":null}`,
		` { "kind" : "accountLog", "accountId":"account_00000000000000000000000001", "source":"\ud83d\ude00","payload":{ "a":[ ] },"claimed":{"domain":"x","name":null} }`,
		`{"kind":"accountLog"}`, `{}`, ``, `[`, `{"kind":"account","domain":"\u0000"}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		item, err := decode(bytes.Clone(line))
		if err != nil {
			if atrium.CodeOf(err) != atrium.CodeInvalidRequest {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		complete(item.Record)
		first, err := encode(item.Record)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		again, err := decode(bytes.Clone(first))
		if err != nil {
			t.Fatalf("decode %s: %v", first, err)
		}
		second, err := encode(again.Record)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s\nthen\n%s, %v", first, second, err)
		}
		for _, i := range []store.Import{item, again} {
			if member := i.Differs(again.Record); member != "" {
				t.Fatalf("%q differs from itself in %s", line, member)
			}
		}
	})
}

// complete sets the members that the store would generate.
func complete(record store.Record) {
	switch r := record.(type) {
	case *atrium.Account:
		orNew(&r.ID)
	case *atrium.LinkedProspect:
		orNew(&r.ID)
	case *atrium.Page:
		orNew(&r.ID)
	case *atrium.Audience:
		orNew(&r.ID)
	case *atrium.AudienceVersion:
		orNew(&r.ID)
		orNew(&r.PageID)
		r.Number = max(r.Number, 1)
	case *atrium.Entry:
		orNew(&r.ID)
	}
}

func orNew[T atrium.Identifier](id *T) {
	if *id == "" {
		*id = atrium.NewID[T]()
	}
}

func TestTheLengthOfALineIsLimited(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, end := range []string{"", "\n", "\r\n"} {
		line, err := (&importer{maxLine: maxLine}).readLine(bufio.NewReader(strings.NewReader(long+end)), false)
		if err != nil || len(line) != maxLine {
			t.Errorf("a line at the limit: %d bytes, %v", len(line), err)
		}
		tooLong := bufio.NewReader(strings.NewReader(long + "x" + end))
		if _, err = (&importer{maxLine: maxLine}).readLine(tooLong, false); !errors.Is(err, errLineTooLong) {
			t.Errorf("a line over the limit: %v", err)
		}
	}
	empty := bufio.NewReader(strings.NewReader(""))
	if _, err := (&importer{maxLine: maxLine}).readLine(empty, false); !errors.Is(err, io.EOF) {
		t.Errorf("no line: %v", err)
	}
}

func TestDecodingALineAllocatesAFewTimesItsSize(t *testing.T) {
	const times, size = 12, 1 << 20 // total allocations, including buffers discarded on growth
	const id = `"account_00000000000000000000000001"`
	lines := map[string][]byte{
		"links":       []byte(`{"kind":"prospect","accountIds":[` + strings.Repeat(id+",", size/len(id)) + id + `]}`),
		"short links": []byte(`{"kind":"prospect","accountIds":[` + strings.Repeat(`"",`, size/3) + `""]}`),
	}
	for _, shape := range jsonshape.All {
		payload := shape.Make(size)
		lines[shape.Name] = fmt.Appendf(nil, `{"kind":"accountLog","accountId":%s,"source":"crm","payload":%s}`, id, payload)
		lines[shape.Name+" of the line"] = jsonshape.Extend([]byte(`{"kind":"account","domain":"acme.example"}`), payload)
	}
	for name, line := range lines {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(line)
		runtime.ReadMemStats(&after)
		if _, fine := lines[name+" of the line"]; (fine || name == "links") != (err == nil) {
			t.Errorf("%s: %.200v", name, err)
		}
		if got, most := int(after.TotalAlloc-before.TotalAlloc), times*len(line)+64<<10; got > most {
			t.Errorf("%s: allocated %d bytes for %d, want at most %d", name, got, len(line), most)
		}
	}
}
