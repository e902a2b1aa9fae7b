package jsonpatch_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"atrium/internal/jsonpatch"
	"atrium/internal/jsonshape"
	"atrium/internal/strictjson"
)

// changed returns a value of a shape, and a value that differs from it nearly everywhere.
func changed(shape jsonshape.Shape, size int) (from, to []byte) {
	from = strictjson.Compact(shape.Make(size))
	to = bytes.ReplaceAll(from, []byte(":0"), []byte(":1"))
	to = bytes.ReplaceAll(to, []byte("[]"), []byte("{}"))
	return from, bytes.ReplaceAll(to, []byte("99"), []byte("88"))
}

func TestDiffAllocatesInProportionToSize(t *testing.T) {
	const times = 12 // total allocations per byte, including slices that were outgrown
	for _, size := range []int{32 << 10, 1 << 20} {
		for _, shape := range jsonshape.All {
			from, to := changed(shape, size)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			patch, err := jsonpatch.Diff(from, to)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatalf("%s: %v", shape.Name, err)
			}
			if got, most := int(after.TotalAlloc-before.TotalAlloc), times*(len(from)+len(to))+64<<10; got > most {
				t.Errorf("%s of %d bytes: allocated %d bytes, want at most %d", shape.Name, size, got, most)
			}
			if most := len(to) + 100; len(patch) > most {
				t.Errorf("%s of %d bytes: the patch has %d bytes, want at most %d", shape.Name, size, len(patch), most)
			}
		}
	}
}

// BenchmarkDiffSizes compares values of every shape that differ nearly everywhere. MB/s
// must not fall as the size grows.
func BenchmarkDiffSizes(b *testing.B) {
	for _, shape := range jsonshape.All {
		for _, size := range jsonshape.Sizes {
			b.Run(fmt.Sprintf("shape=%s/bytes=%d", shape.Name, size), func(b *testing.B) {
				from, to := changed(shape, size)
				b.SetBytes(int64(len(from) + len(to)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := jsonpatch.Diff(from, to); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
