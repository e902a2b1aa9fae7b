package csvrows

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// shapes are files of about a size whose rows are costly to split, or become few lines. Each ends with a good row.
var shapes = []struct {
	name string
	row  func(size int) string // repeated
}{
	{"rows", func(int) string { return "a.example,A\n" }},
	{"blank-lines", func(int) string { return "\n" }},
	{"empty-rows", func(int) string { return ",\n" }},
	{"wrong-rows", func(int) string { return "a\"b\n" }},
	{"wide-rows", func(int) string { return "a,b,c\n" }},
	{"lines-between-wrong-rows", func(int) string { return strings.Repeat("\n", 1000) + ",b\n" }},
	{"lines-in-cells", func(int) string { return ",\"" + strings.Repeat("\n", 1000) + "\"\n" }},
	{"cells", func(size int) string { return strings.Repeat(",", size-1) + "\n" }},
	{"cells-after-a-quote", func(size int) string { return "a\"\n" + strings.Repeat(",", size-4) + "\n" }},
	{"quotes", func(size int) string { return strings.Repeat(`"`, size&^1) + "\n" }},
	{"escapes", func(size int) string { return "a.example," + strings.Repeat("\x01", size-11) + "\n" }},
	{"long-host", func(size int) string { return strings.Repeat("://", size/3) + "\n" }},
	{"long-line", func(size int) string { return strings.Repeat("a", size) + "\n" }},
}

func shaped(row string, size int) []byte {
	return fmt.Appendf(nil, "domain,name\n%sz.example,Z\n", strings.Repeat(row, max(size/len(row), 1)))
}

// lines returns the lines of a file of accounts, without wrong rows.
func lines(tb testing.TB, in []byte, refuse func(Fault) error) *Lines {
	tb.Helper()
	f, err := NewFile(bytes.NewReader(in), nil)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := NewLines(f, Kinds[0], Columns{"domain": 0, "name": 1})
	if err != nil {
		tb.Fatal(err)
	}
	l.Refuse = refuse
	return l
}

// Memory grows with the longest row, and neither with the number of rows nor with that of lines between them. The
// line of the last row is that of the file.
func TestMemoryGrowsWithTheLongestRow(t *testing.T) {
	const (
		times    = 40        // bytes for each one of the longest row, with slices that were outgrown
		ofFault  = 256       // bytes for each fault
		constant = 256 << 10 // bytes
	)
	for _, size := range []int{1 << 10, 64 << 10, maxRow - 100} {
		for _, shape := range shapes {
			row := shape.row(size)
			in := shaped(row, 256<<10)
			faults := 0
			l := lines(t, in, func(Fault) error {
				faults++
				return nil
			})
			count := newCounter()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := io.CopyBuffer(count, struct{ io.Reader }{l}, make([]byte, 32<<10))
			runtime.ReadMemStats(&after)
			if want := bytes.Count(in, []byte("\n")); err != nil || count.lines != want || string(count.last) != `{"kind":"account","domain":"z.example","name":"Z"}` {
				t.Errorf("%s: %d lines, want %d; the last one is %q; %v", shape.name, count.lines, want, count.last, err)
			}
			if got, most := int(after.TotalAlloc-before.TotalAlloc), times*len(row)+ofFault*faults+constant; got > most {
				t.Errorf("%s of %d bytes: allocated %d bytes, want at most %d", shape.name, len(in), got, most)
			}
			if got, most := cap(l.file.rows.text)+cap(l.buffer), (rowMemory-1)*max(len(row), smallRow); got > most { // without a header
				t.Errorf("%s: a row of %d bytes uses %d bytes, want at most %d", shape.name, len(row), got, most)
			}
		}
	}
}

// A counter counts lines, and keeps the beginning of the last one.
type counter struct {
	lines int
	last  []byte
	ended bool
}

func newCounter() *counter { return &counter{last: make([]byte, 0, 1<<10)} }

func (c *counter) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		if c.ended {
			c.last = c.last[:0]
		}
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		c.last = append(c.last, text[:min(len(text), cap(c.last)-len(c.last))]...)
		if c.ended = ended; ended {
			c.lines++
		}
	}
	return len(b), nil
}

// A slow client must not delay the rows that have arrived.
func TestLinesThatHaveArrivedAreReadWithoutWaiting(t *testing.T) {
	in := &parts{"domain\n" + strings.Repeat("a.example\n", 1000), "b.example\n"}
	f, err := NewFile(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLines(f, Kinds[0], Columns{"domain": 0})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	if n, err := l.Read(b); err != nil || bytes.Count(b[:n], []byte("a.example")) != 1000 || len(*in) != 1 {
		t.Errorf("%d bytes were read, %d parts are left, %v", n, len(*in), err)
	}
}

// parts are what a client sends, one after the other.
type parts []string

func (p *parts) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

// BenchmarkLinesSizes reads files of every shape. MB/s must not fall as the size grows.
func BenchmarkLinesSizes(b *testing.B) {
	for _, shape := range shapes {
		for _, size := range []int{32 << 10, 1 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("shape=%s/bytes=%d", shape.name, size), func(b *testing.B) {
				in := shaped(shape.row(min(size, maxRow-100)), size)
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					l := lines(b, in, func(Fault) error { return nil })
					if _, err := io.Copy(io.Discard, struct{ io.Reader }{l}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
