package telemetry

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writes are what was written, each time.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), nil
}

func (w *writes) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// lines returns how many lines each write had.
func (w *writes) lines() (each []int) {
	for _, text := range w.texts() {
		each = append(each, strings.Count(text, "\n"))
	}
	return each
}

func wantLines(t *testing.T, w *writes, want ...int) {
	t.Helper()
	if got := w.lines(); !slices.Equal(got, want) {
		t.Fatalf("there were writes of %v lines, want %v", got, want)
	}
}

// gathering calls f with a log whose lines are gathered, and what is called for a request.
func gathering(t *testing.T, f func(t *testing.T, w *writes, lines *Lines, log *slog.Logger, request func())) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{}
				lines := NewLines(w)
				log := NewLogger(lines, format, "info")
				requests, x := RequestLog(log, 1), exchange(t, 200)
				f(t, w, lines, log, func() { requests(x) })
			})
		})
	}
}

func TestTheLineOfALoneRequestIsWrittenAtOnce(t *testing.T) {
	gathering(t, func(t *testing.T, w *writes, _ *Lines, _ *slog.Logger, request func()) {
		request()
		wantLines(t, w, 1)
		time.Sleep(gatherTime)
		request()
		wantLines(t, w, 1, 1)
	})
}

func TestLinesOfManyRequestsAreWrittenTogetherAndSoon(t *testing.T) {
	gathering(t, func(t *testing.T, w *writes, _ *Lines, _ *slog.Logger, request func()) {
		for range 10 {
			request()
			time.Sleep(gatherTime / 20)
		}
		wantLines(t, w, 1)
		time.Sleep(gatherTime/2 + time.Millisecond)
		synctest.Wait()
		wantLines(t, w, 1, 9)
	})
}

func TestLinesThatWaitTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	gathering(t, func(t *testing.T, w *writes, lines *Lines, _ *slog.Logger, request func()) {
		for range 3000 {
			request()
		}
		for i, text := range w.texts()[1:] {
			if len(text) < gatherBytes || len(text) > gatherBytes+512 {
				t.Errorf("write %d has %d bytes", i, len(text))
			}
		}
		lines.mu.Lock()
		room := cap(lines.waiting)
		lines.mu.Unlock()
		if n := len(w.lines()); n < 10 || room > 2*gatherBytes {
			t.Errorf("%d writes, room for %d bytes", n, room)
		}
		time.Sleep(gatherTime)
		synctest.Wait()
		sum := 0
		for _, n := range w.lines() {
			sum += n
		}
		if sum != 3000 {
			t.Errorf("%d lines were written, want 3000", sum)
		}
	})
}

func TestOtherLinesAreWrittenAtOnceBehindThoseThatWait(t *testing.T) {
	gathering(t, func(t *testing.T, w *writes, _ *Lines, log *slog.Logger, request func()) {
		request()
		request()
		log.With("a", 1).Error("something failed")
		wantLines(t, w, 1, 2)
		if !strings.HasSuffix(strings.TrimRight(w.texts()[1], "}\n"), "1") {
			t.Errorf("wrote %q", w.texts()[1])
		}
		request()
		wantLines(t, w, 1, 2)
	})
}

func TestNoLineIsLostWhenTheLogIsClosed(t *testing.T) {
	gathering(t, func(t *testing.T, w *writes, lines *Lines, log *slog.Logger, request func()) {
		request()
		request()
		request()
		if err := lines.Close(); err != nil {
			t.Fatal(err)
		}
		wantLines(t, w, 1, 2)
		request()
		log.Info("stopped")
		wantLines(t, w, 1, 2, 1, 1)
	})
}
