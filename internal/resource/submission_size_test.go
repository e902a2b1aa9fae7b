package resource_test

import (
	"fmt"
	"testing"

	"atrium/internal/jsonshape"
	"atrium/internal/resource"
	"atrium/internal/strictjson"
)

const known = `{"source":"crm","domain":"acme.example","payload":{}}`

// BenchmarkDecodeSubmissionSizes decodes submissions with payloads of every shape, and some with
// many unknown members. MB/s must not fall as the size grows.
func BenchmarkDecodeSubmissionSizes(b *testing.B) {
	for _, shape := range jsonshape.All {
		for _, size := range jsonshape.Sizes {
			payload := append([]byte(`{"payload":`), shape.Make(size)...)
			body := jsonshape.Extend([]byte(`{"source":"crm","domain":"acme.example"}`), append(payload, '}'))
			b.Run(fmt.Sprintf("shape=%s/bytes=%d", shape.Name, size), func(b *testing.B) { decode(b, body, true) })
		}
	}
	for _, size := range jsonshape.Sizes {
		body := jsonshape.Extend([]byte(known), jsonshape.Wide(size))
		b.Run(fmt.Sprintf("shape=unknown/bytes=%d", size), func(b *testing.B) { decode(b, body, false) })
	}
}

func decode(b *testing.B, body []byte, valid bool) {
	b.Helper()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		o, err := strictjson.Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		resource.DecodeSubmission(o)
		o.RejectUnknown()
		if valid != (len(o.Faults()) == 0) {
			b.Fatal(o.Faults())
		}
	}
}
