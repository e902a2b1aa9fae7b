package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// exchange returns a request with a response of the status.
func exchange(status int) *Exchange {
	return &Exchange{
		RequestID: "req_1", Method: "GET", Route: "/v0/accounts/{account_id}", Status: status,
		Bytes: 321, Duration: 1234567 * time.Nanosecond, TenantID: "tenant_1", KeyID: "key_1",
		Client: netip.MustParseAddr("2001:db8::1"),
	}
}

func TestRequestIsOneLineWithOnlyItsMembers(t *testing.T) {
	for _, status := range []int{200, 304, 404, 503} {
		var out bytes.Buffer
		x := exchange(status)
		if status == 503 {
			x.EntryID, x.AccountID = "prospectlog_1", "account_1"
		}
		if status == 404 {
			x.IgnoredFields = 2
		}
		RequestLog(NewLogger(&out, "json", "info"), 1)(t.Context(), x)
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Fatalf("there are %d lines for a %d", n, status)
		}
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if _, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(line, "time")
		want := map[string]any{
			"level": "INFO", "msg": "request", "requestId": "req_1", "method": "GET", "route": "/v0/accounts/{account_id}",
			"status": float64(status), "duration": 1235000.0, "bytes": 321.0, "tenantId": "tenant_1", "keyId": "key_1",
			"client": "2001:db8::1",
		}
		if x.EntryID != "" {
			want["accountLogId"], want["accountId"] = "prospectlog_1", "account_1"
		}
		if x.IgnoredFields > 0 {
			want["ignoredFields"] = 2.0
		}
		if !maps.Equal(line, want) {
			t.Errorf("logged %v, want %v", line, want)
		}
	}
}

func TestUnknownMethodsAreLoggedAsOther(t *testing.T) {
	var out bytes.Buffer
	x := exchange(405)
	x.Method = "FROB" + strings.Repeat("x", 9000)
	RequestLog(NewLogger(&out, "json", "info"), 1)(t.Context(), x)
	if text := out.String(); strings.Contains(text, "FROB") || !strings.Contains(text, `"method":"other"`) {
		t.Errorf("logged %s", text)
	}
}

func TestSamplingDropsOnlySuccessesAndEvenly(t *testing.T) {
	for sample, successes := range map[int]int{0: 0, 1: 30, 3: 10, 7: 4, 31: 0} {
		var out bytes.Buffer
		log := RequestLog(NewLogger(&out, "text", "info"), sample)
		for i := range 30 {
			log(t.Context(), exchange([]int{200, 201, 304}[i%3]))
			log(t.Context(), exchange([]int{400, 401, 404, 500, 503}[i%5]))
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		failures := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return strings.Contains(line, " status=2") || strings.Contains(line, " status=3")
		})
		if len(failures) != 30 || len(lines)-len(failures) != successes {
			t.Errorf("one of %d: %d of 30 failures and %d of 30 successes, want %d", sample, len(failures), len(lines)-len(failures), successes)
		}
	}
}

func TestOnlyFailedHealthChecksAreLoggedAboveDebug(t *testing.T) {
	for _, c := range []struct {
		route  string
		status int
		level  string
	}{
		{"/healthz", 200, "DEBUG"}, {"/readyz", 200, "DEBUG"}, {"/readyz", 503, "INFO"}, {"/readyz", 500, "INFO"},
		{"/healthz", 405, "INFO"}, {"/v0/pages", 200, "INFO"}, {"", 404, "INFO"},
	} {
		for _, minimum := range []string{"debug", "info"} {
			var out bytes.Buffer
			log, x, other := RequestLog(NewLogger(&out, "text", minimum), 2), exchange(c.status), exchange(200)
			x.Route, other.RequestID = c.route, "req_other"
			want := 2
			if c.status < 400 { // every second one, of those that the level admits
				want = 1
			}
			if minimum == "info" && c.level == "DEBUG" {
				want = 0
			}
			log(t.Context(), x)
			log(t.Context(), x)
			if n := strings.Count(out.String(), " level="+c.level+" msg=request requestId=req_1 "); n != want || strings.Count(out.String(), "\n") != want {
				t.Errorf("%s with %d at %s: want %d lines at %s, got\n%s", c.route, c.status, minimum, want, c.level, &out)
			}
			log(t.Context(), other)
			log(t.Context(), other)
			if n := strings.Count(out.String(), "req_other"); n != 1 {
				t.Errorf("after %s with %d at %s: %d of 2 other requests are logged, want 1", c.route, c.status, minimum, n)
			}
		}
	}
}

func TestFormatIsJSONByDefault(t *testing.T) {
	for format, begin := range map[string]string{"json": `{"time":"`, "text": "time=", "auto": `{"time":"`} { // a buffer is not a terminal
		var out bytes.Buffer
		NewLogger(&out, format, "info").Info("hello")
		if !strings.HasPrefix(out.String(), begin) {
			t.Errorf("%s: %s does not begin with %s", format, out.String(), begin)
		}
	}
}

func TestLevelIsTheMinimum(t *testing.T) {
	for level, want := range map[string]string{
		"debug": "DEBUG INFO WARN ERROR", "info": "INFO WARN ERROR", "warn": "WARN ERROR", "error": "ERROR", "nonsense": "INFO WARN ERROR",
	} {
		var out bytes.Buffer
		log := NewLogger(&out, "json", level)
		for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(t.Context(), l, "hello")
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			var m struct{ Level string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Level)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at %s: %v, want %s", level, got, want)
		}
	}
}

// BenchmarkRequestLog measures the cost of a line without writing it.
func BenchmarkRequestLog(b *testing.B) {
	for _, format := range []string{"json", "text"} {
		b.Run(format, func(b *testing.B) {
			log, x := RequestLog(NewLogger(discard{}, format, "info"), 1), exchange(200)
			b.ReportAllocs()
			ctx := b.Context()
			for b.Loop() {
				log(ctx, x)
			}
		})
	}
	b.Run("dropped", func(b *testing.B) {
		log, x := RequestLog(NewLogger(discard{}, "json", "info"), 0), exchange(200)
		b.ReportAllocs()
		ctx := b.Context()
		for b.Loop() {
			log(ctx, x)
		}
	})
}

// discard discards everything. slog skips the line if it writes to io.Discard.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
