package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// progressInterval is the time between updates of the progress line.
const progressInterval = 250 * time.Millisecond

// A progress shows the progress of a transfer on a terminal: lines and their rate and, if the total
// is known, the share that is done and the remaining time.
type progress struct {
	out   io.Writer
	verb  string
	unit  string // what lines counts
	total int64  // in bytes; 0 if unknown

	bytes, lines atomic.Int64
	size         atomic.Int64 // in bytes, for transfers without lines; otherwise 0
	start        time.Time
	stop, ended  chan struct{}
	once         sync.Once
}

// startProgress shows progress on stderr if that is a terminal. total is in bytes, or 0 if unknown.
// The caller must call finish.
func startProgress(stderr io.Writer, verb string, total int64) *progress {
	return start(&progress{out: stderr, verb: verb, unit: "lines", total: total})
}

// startRowProgress is startProgress for rows, which the caller counts in lines.
func startRowProgress(stderr io.Writer, verb string) *progress {
	return start(&progress{out: stderr, verb: verb, unit: "rows"})
}

func start(p *progress) *progress {
	p.start, p.stop, p.ended = time.Now(), make(chan struct{}), make(chan struct{})
	if !isTerminal(p.out) {
		close(p.ended)
		return p
	}
	go p.show()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) show() {
	defer close(p.ended)
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(p.out, "\r\x1b[K%s", p.line(time.Since(p.start)))
		case <-p.stop:
			fmt.Fprintf(p.out, "\r\x1b[K")
			return
		}
	}
}

// line returns the progress line after the elapsed time.
func (p *progress) line(elapsed time.Duration) string {
	lines, done, total := p.lines.Load(), p.bytes.Load(), p.total
	seconds := max(elapsed.Seconds(), 0.001)
	text := fmt.Sprintf("%s %d %s, %.0f/s", p.verb, lines, p.unit, float64(lines)/seconds)
	if size := p.size.Load(); size > 0 {
		total = size
		text = fmt.Sprintf("%s %s of %s, %s/s", p.verb, mebibytes(done), mebibytes(size),
			mebibytes(int64(float64(done)/seconds)))
	}
	if total > 0 && done > 0 {
		share := min(float64(done)/float64(total), 1)
		left := time.Duration(float64(elapsed) * (1 - share) / share)
		text += fmt.Sprintf(", %.0f%%, %v left", 100*share, left.Round(time.Second))
	}
	return text
}

// setBytes sets the progress of a transfer without lines, in bytes.
func (p *progress) setBytes(done, total int64) {
	p.bytes.Store(done)
	p.size.Store(total)
}

// mebibytes formats a number of bytes.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// finish stops the progress line. It can be called more than once, by one goroutine.
func (p *progress) finish() {
	p.once.Do(func() { close(p.stop) })
	<-p.ended
}

func (p *progress) count(b []byte) {
	p.bytes.Add(int64(len(b)))
	p.lines.Add(int64(bytes.Count(b, []byte{'\n'})))
}

// A countingReader counts the bytes and lines that are read.
type countingReader struct {
	io.Reader
	*progress
}

func (r countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.count(b[:n])
	return n, err
}
