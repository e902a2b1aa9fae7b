package telemetry

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
)

func TestRefusalsAreLoggedWithTheirCountAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := NewLogger(&out, "text", "info")
		l, requests := NewRefusalLog(logger), RequestLog(logger, 1)
		refuse := func(by Refusal, times int) {
			for range times {
				x := exchange(429)
				x.Refused = by
				requests(t.Context(), x)
				l.Request(t.Context(), x)
			}
		}
		refuse(ByKeyRate, 1000)
		refuse(ByOverload, 10)
		time.Sleep(9 * time.Second)
		refuse(ByKeyRate, 500)
		l.Request(t.Context(), exchange(429)) // which no limit refused
		time.Sleep(time.Second)
		refuse(ByKeyRate, 2)
		l.Connection(ByConnections)
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			got = append(got, strings.TrimSpace(rest))
		}
		const whose = " requestId=req_1 route=/v0/accounts/{account_id} tenantId=tenant_1 keyId=key_1 client=2001:db8::1"
		want := []string{
			`WARN msg="refused by a limit" limit=key_rate count=1` + whose,
			`WARN msg="refused by a limit" limit=overload count=1` + whose,
			`WARN msg="refused by a limit" limit=key_rate count=1500` + whose,
			`WARN msg="refused by a limit" limit=connections count=1`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestRequestsWithoutAKeyCannotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		requests := RequestLog(NewLogger(&out, "text", "info"), 1)
		for second := range 11 {
			for _, key := range []atrium.KeyID{"", "key_1"} {
				for range 300 {
					x := exchange(404)
					x.KeyID = key
					requests(t.Context(), x)
				}
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			out.Reset()
			wantLines, wantWarning := 400, ""
			switch second {
			case 0: // the first one that is not logged
				wantLines, wantWarning = 401, "count=1"
			case 10:
				wantLines, wantWarning = 401, "count=2000"
			}
			var warnings []string
			for _, line := range lines {
				if _, count, ok := strings.Cut(line, `level=WARN msg="requests without a valid key were not logged" `); ok {
					warnings = append(warnings, count)
				}
			}
			if warning := strings.Join(warnings, ", "); len(lines) != wantLines || warning != wantWarning {
				t.Errorf("second %d: %d lines, want %d; warning %q, want %q", second, len(lines), wantLines, warning, wantWarning)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestUnloggedRefusalAllocatesNothing(t *testing.T) {
	l, x := NewRefusalLog(NewLogger(io.Discard, "text", "info")), exchange(429)
	x.Refused = ByKeyRate
	ctx := t.Context()
	l.Request(ctx, x)
	if n := testing.AllocsPerRun(1000, func() { l.Request(ctx, x) }); n > 0 {
		t.Errorf("it takes %v allocations", n)
	}
}
