package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressShowsRateAndRemainingTime(t *testing.T) {
	var screen strings.Builder // not a terminal: no output
	p := startProgress(&screen, "imported", 400)
	if got := p.line(time.Second); got != "imported 0 lines, 0/s" {
		t.Errorf("before the first line: %s", got)
	}
	if _, err := io.Copy(io.Discard,
		countingReader{strings.NewReader(strings.Repeat("123456789\n", 10)), p}); err != nil {
		t.Fatal(err)
	}
	if got := p.line(5 * time.Second); got != "imported 10 lines, 2/s, 25%, 15s left" {
		t.Errorf("after some lines: %s", got)
	}
	p.finish()
	q := startProgress(&screen, "exported", 0)
	if _, err := io.Copy(io.Discard, countingReader{strings.NewReader("a\nb\n"), q}); err != nil {
		t.Fatal(err)
	}
	if got := q.line(time.Second); got != "exported 2 lines, 2/s" {
		t.Errorf("unknown total: %s", got)
	}
	q.finish()
	copying := startProgress(&screen, "copied", 0)
	copying.setBytes(3<<20, 12<<20)
	if got := copying.line(2 * time.Second); got != "copied 3.0 MiB of 12.0 MiB, 1.5 MiB/s, 25%, 6s left" {
		t.Errorf("without lines: %s", got)
	}
	copying.finish()
	if screen.Len() > 0 {
		t.Errorf("%q was shown without a terminal", screen.String())
	}
}
