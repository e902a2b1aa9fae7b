package transfer_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"atrium/internal/jsonshape"
	"atrium/internal/transfer"
)

// BenchmarkImportSizes imports lines of every shape into SQLite. MB/s must not fall as
// the size grows.
func BenchmarkImportSizes(b *testing.B) {
	p := newPlace(b)
	p.put(b, sizeAccount)
	for _, shape := range jsonshape.All {
		for _, size := range jsonshape.Sizes {
			b.Run(fmt.Sprintf("shape=%s/bytes=%d", shape.Name, size), func(b *testing.B) {
				line := shapedLine(shape.Make(size))
				b.SetBytes(int64(len(line)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.importFrom(b, bytes.NewReader(line), transfer.Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// sizeAccount is the account of the entries of shapedLine.
const sizeAccount = `{"kind":"account","accountId":"account_00000000000000000000000001","domain":"acme.example"}`

// shapedLine returns the line of an entry with a payload.
func shapedLine(payload []byte) []byte {
	return fmt.Appendf(nil, `{"kind":"accountLog","accountId":"account_00000000000000000000000001","source":"crm","payload":%s}`, payload)
}

// linkedLine returns the line of a prospect with many account identifiers.
func linkedLine(size int) []byte {
	ids := strings.Repeat(`"account_00000000000000000000000001",`, size/37)
	return []byte(`{"kind":"prospect","accountIds":[` + strings.TrimSuffix(ids, ",") + `]}`)
}

func TestALineOfAnyShapeIsReadInAFewTimesItsSize(t *testing.T) {
	const times = 14 // as much is allocated in all: the line is read, decoded and checked
	p := newPlace(t)
	p.put(t, sizeAccount)
	for _, size := range []int{256 << 10, 4 << 20} {
		lines := map[string][]byte{
			"links":           linkedLine(size),
			"many short text": []byte(`{"kind":"prospect","accountIds":[` + strings.Repeat(`"",`, size/3) + `""]}`),
			"empty line":      bytes.Repeat([]byte(" "), size),
		}
		for _, shape := range jsonshape.All {
			lines[shape.Name] = shapedLine(shape.Make(size))
			lines[shape.Name+" of the line"] = jsonshape.Extend([]byte(`{"kind":"account","domain":"acme.example"}`), shape.Make(size))
		}
		for name, line := range lines {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = p.importFrom(t, bytes.NewReader(line), transfer.Options{Check: true})
			runtime.ReadMemStats(&after)
			if got, most := int(after.TotalAlloc-before.TotalAlloc), times*len(line)+4<<20; got > most {
				t.Errorf("%s of %d bytes: allocated %d bytes, want %d at most", name, size, got, most)
			}
		}
	}
}
