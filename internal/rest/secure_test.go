package rest

import (
	"net/http"
	"testing"
	"time"
)

// What every answer pays for the headers that it has for browsers.
func BenchmarkSecure(b *testing.B) {
	h := make(http.Header, 16)
	transport := hsts(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		secure(h, transport)
	}
}
