package telemetry

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestAcceptErrorsAreLoggedOnceAMinuteWithTheirCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		failed := AcceptErrorLog(NewLogger(&out, "text", "warn"))
		for range 120 { // one a second, as net/http retries
			failed(syscall.EMFILE)
			time.Sleep(time.Second)
		}
		failed(syscall.ENFILE)
		var got []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			got = append(got, strings.TrimSpace(rest))
		}
		want := []string{
			`WARN msg="cannot accept connections, retrying" count=1 error="too many open files"`,
			`WARN msg="cannot accept connections, retrying" count=60 error="too many open files"`,
			`WARN msg="cannot accept connections, retrying" count=60 error="too many open files in system"`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
