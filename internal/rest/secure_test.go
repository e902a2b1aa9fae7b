package rest

import (
	"net/http"
	"testing"
)

// A nowhere is a ResponseWriter that sends nothing.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// answered is the header of a read with all that an answer of the API may have over plain
// HTTP: rates and a tag.
func answered() http.Header {
	w := nowhere{make(http.Header)}
	h := w.Header()
	h.Set(headerRequestID, "req_1")
	secure(h, nil)
	h[headerRatePolicy], h[headerRate] = []string{"policy"}, []string{"left"}
	h[headerETag] = []string{`"1"`}
	write(w, &http.Request{}, http.StatusOK, typeJSON, []byte("{}"))
	return h
}

// A map of more than eight has ten times the memory of one that has no more.
func TestAPIResponseHasAtMostEightHeaders(t *testing.T) {
	if h := answered(); len(h) > 8 {
		t.Errorf("it has %d: %v", len(h), h)
	}
}

// What every answer pays for its header.
func BenchmarkHeader(b *testing.B) {
	body := []byte("{}")
	b.ReportAllocs()
	for b.Loop() {
		w := nowhere{make(http.Header)}
		h := w.Header()
		h.Set(headerRequestID, "req_1")
		secure(h, nil)
		h[headerETag] = []string{`"1"`}
		write(w, &http.Request{}, http.StatusOK, typeJSON, body)
	}
}
