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

// writes records every write.
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

// coalescing calls f with a log whose lines of requests are coalesced, and a function that
// logs a request.
func coalescing(t *testing.T, f func(t *testing.T, w *writes, out *LogWriter, log *slog.Logger, request func())) {
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{}
				out := NewLogWriter(w)
				log := NewLogger(out, format, "info")
				requests, x := RequestLog(log, 1), exchange(200)
				f(t, w, out, log, func() { requests(t.Context(), x) })
			})
		})
	}
}

func TestLineOfASingleRequestIsWrittenImmediately(t *testing.T) {
	coalescing(t, func(t *testing.T, w *writes, _ *LogWriter, _ *slog.Logger, request func()) {
		request()
		wantLines(t, w, 1)
		time.Sleep(coalesceTime)
		request()
		wantLines(t, w, 1, 1)
	})
}

func TestLinesOfManyRequestsAreCoalesced(t *testing.T) {
	coalescing(t, func(t *testing.T, w *writes, _ *LogWriter, _ *slog.Logger, request func()) {
		for range 10 {
			request()
			time.Sleep(coalesceTime / 20)
		}
		wantLines(t, w, 1)
		time.Sleep(coalesceTime/2 + time.Millisecond)
		synctest.Wait()
		wantLines(t, w, 1, 9)
	})
}

func TestMemoryOfWaitingLinesIsBounded(t *testing.T) {
	coalescing(t, func(t *testing.T, w *writes, out *LogWriter, _ *slog.Logger, request func()) {
		for range 3000 {
			request()
		}
		for i, text := range w.texts()[1:] {
			if len(text) < coalesceBytes || len(text) > coalesceBytes+512 {
				t.Errorf("write %d has %d bytes", i, len(text))
			}
		}
		out.mu.Lock()
		size := cap(out.waiting)
		out.mu.Unlock()
		if n := len(w.lines()); n < 10 || size > 2*coalesceBytes {
			t.Errorf("%d writes, a buffer of %d bytes", n, size)
		}
		time.Sleep(coalesceTime)
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

func TestOtherLinesAreWrittenImmediatelyAndInOrder(t *testing.T) {
	coalescing(t, func(t *testing.T, w *writes, _ *LogWriter, log *slog.Logger, request func()) {
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

func TestCloseWritesWaitingLines(t *testing.T) {
	coalescing(t, func(t *testing.T, w *writes, out *LogWriter, log *slog.Logger, request func()) {
		request()
		request()
		request()
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		wantLines(t, w, 1, 2)
		request()
		log.Info("stopped")
		wantLines(t, w, 1, 2, 1, 1)
	})
}
