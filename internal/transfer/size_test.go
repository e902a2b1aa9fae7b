package transfer_test

import (
	"bytes"
	"fmt"
	"testing"

	"atrium/internal/jsonshape"
	"atrium/internal/transfer"
)

// BenchmarkImportSizes imports lines of every shape into SQLite. MB/s must not decrease
// with the size.
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

// sizeAccount is the line of the account of shapedLine.
const sizeAccount = `{"kind":"account","accountId":"account_00000000000000000000000001","domain":"acme.example"}`

// shapedLine returns the line of an entry with a payload.
func shapedLine(payload []byte) []byte {
	return fmt.Appendf(nil, `{"kind":"accountLog","accountId":"account_00000000000000000000000001","source":"crm","payload":%s}`, payload)
}
