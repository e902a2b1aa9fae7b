package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressTellsRateAndWhatIsLeft(t *testing.T) {
	var screen strings.Builder // no terminal: nothing is shown
	p := startProgress(&screen, "imported", 400, false)
	if _, err := io.Copy(io.Discard, countedReader{strings.NewReader(strings.Repeat("123456789\n", 10)), p}); err != nil {
		t.Fatal(err)
	}
	if got := p.line(5 * time.Second); got != "imported 10 lines, 2/s, 25 %, 15s left" {
		t.Errorf("after some: %s", got)
	}
	p.finish()
	q := startProgress(&screen, "exported", 20, true)
	if got := q.line(time.Second); got != "exported 0 lines, 0/s" {
		t.Errorf("before the first: %s", got)
	}
	if _, err := (countedWriter{io.Discard, q}).Write([]byte("a\nb\n")); err != nil {
		t.Fatal(err)
	}
	if got := q.line(time.Second); got != "exported 2 lines, 2/s, 10 %, 9s left" {
		t.Errorf("after some: %s", got)
	}
	q.finish()
	if screen.Len() > 0 {
		t.Errorf("%q was shown without a terminal", screen.String())
	}
}
