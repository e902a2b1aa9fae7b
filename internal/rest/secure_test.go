package rest

import (
	"net/http"
	"testing"
)

// A nowhere is a ResponseWriter that discards the response.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// apiHeaders returns the headers of a read with all headers that an API response may have over
// plain HTTP.
func apiHeaders() http.Header {
	w := nowhere{make(http.Header)}
	h := w.Header()
	h.Set(headerRequestID, "req_1")
	secure(h, nil)
	h[headerRatePolicy], h[headerRate] = []string{"policy"}, []string{"left"}
	h[headerETag] = []string{`"1"`}
	Write(w, &http.Request{}, http.StatusOK, typeJSON, []byte("{}"))
	return h
}

// A map with more than eight entries takes ten times the memory of a smaller one.
func TestAPIResponseHasAtMostEightHeaders(t *testing.T) {
	if h := apiHeaders(); len(h) > 8 {
		t.Errorf("%d headers: %v", len(h), h)
	}
}

// BenchmarkHeader measures the headers of a response.
func BenchmarkHeader(b *testing.B) {
	body := []byte("{}")
	b.ReportAllocs()
	for b.Loop() {
		w := nowhere{make(http.Header)}
		h := w.Header()
		h.Set(headerRequestID, "req_1")
		secure(h, nil)
		h[headerETag] = []string{`"1"`}
		Write(w, &http.Request{}, http.StatusOK, typeJSON, body)
	}
}
