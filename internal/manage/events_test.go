package manage_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/manage"
	"atrium/internal/rest"
)

// A page of events is read and encoded as one piece of heavy work. Otherwise any number of pages would be in memory while their
// requests wait to encode them.
func TestAPageOfEventsIsEncodedBeforeOthersAreRead(t *testing.T) {
	s, w := newCheckedWebhook(t, 150)
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 1, Timeout: 2 * time.Second})
	server := &rest.API{Keys: tenantKey(w.TenantID), Log: slog.New(slog.DiscardHandler), Limits: rest.Limits{Heavy: heavy}}
	h := server.Handler((&manage.API{Store: s, Cursors: rest.CursorKey("k")}).Routes(), nil)
	for range 10 {
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/manage/v0/events?limit=100", nil))
			done <- recorder
		}()
		for heavy.Held() == 0 && len(done) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		if err := heavy.Acquire(t.Context(), "another"); err != nil {
			t.Fatal(err)
		}
		recorder := <-done // needs no slot again
		heavy.Release("another")
		if recorder.Code != http.StatusOK || recorder.Body.Len() < 64<<10 {
			t.Fatalf("%d with %d bytes", recorder.Code, recorder.Body.Len())
		}
	}
}
