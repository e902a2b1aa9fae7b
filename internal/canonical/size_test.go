package canonical_test

import (
	"fmt"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/jsonshape"
)

// BenchmarkFingerprintSizes fingerprints payloads of every shape. MB/s must not fall as
// the size grows.
func BenchmarkFingerprintSizes(b *testing.B) {
	for _, shape := range jsonshape.All {
		for _, size := range jsonshape.Sizes {
			b.Run(fmt.Sprintf("shape=%s/bytes=%d", shape.Name, size), func(b *testing.B) {
				s := atrium.Submission{Source: "crm", Type: atrium.DefaultType, Payload: shape.Make(size)}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := canonical.Fingerprint(s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
