package app_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/app"
)

// An export that waits for another one of its tenant must not hold what that one needs to continue.
func TestConcurrentExportsOfATenantAllComplete(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))                                     // a tenant has one slot for heavy work
	s := startStreamer(t, func(c *app.Config) { c.Settings.RequestWait = time.Minute }) // independent of the speed of the machine
	if status, response := s.imports(t, "", strings.NewReader(accountLines(500))); status != http.StatusOK {
		t.Fatal(status, response)
	}
	for target, body := range map[string]string{"/export": "", "/audit/export": "", "/persons/export": `{"rule":{"text":"nobody"}}`} {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for end := time.Now().Add(time.Minute); ; {
					a := send(t, method, "http://"+s.addr+"/manage/v0"+target, body, "x-api-key: "+s.key)
					switch {
					case a.status == http.StatusOK:
						return
					case a.status != http.StatusServiceUnavailable || time.Now().After(end): // it waits for its turn for a second
						t.Errorf("%s: %d %s", target, a.status, a.body)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// An export of a person of which a client has received a part is in the audit log, but not as complete.
func TestAbortedExportOfAPersonIsRecordedAsIncomplete(t *testing.T) {
	s := startStreamer(t)
	const account = "account_00000000000000000000000001"
	var lines strings.Builder
	fmt.Fprintf(&lines, `{"kind":"account","accountId":%q,"domain":"a.example"}`+"\n", account)
	for range 80 { // more than the buffers of a connection
		fmt.Fprintf(&lines, `{"kind":"accountLog","accountId":%q,"source":"forms","payload":{"email":"jane@a.example","s":%q}}`+"\n", account, strings.Repeat("x", 500<<10))
	}
	if status, response := s.imports(t, "", strings.NewReader(lines.String())); status != http.StatusOK {
		t.Fatal(status, response)
	}
	for _, whole := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+"/manage/v0/persons/export", strings.NewReader(`{"rule":{"text":"Jane@a.example"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", s.key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(1000)
		if whole {
			n, err = io.Copy(io.Discard, response.Body)
		} else {
			_, err = io.CopyN(io.Discard, response.Body, n)
		}
		if _ = response.Body.Close(); err != nil || response.StatusCode != http.StatusOK || whole && n < 80*500<<10 {
			t.Fatal(response.StatusCode, n, err)
		}
	}
	a := send(t, http.MethodGet, "http://"+s.addr+"/manage/v0/audit?action=person.", "", "x-api-key: "+s.key)
	if begun, complete := strings.Count(a.body, `"action":"person.export"`), strings.Count(a.body, `"detail":{"accountLogs":80,`); begun != 2 || complete != 1 || strings.Contains(a.body, "jane") {
		t.Errorf("%d exports began and %d are complete: %s", begun, complete, a.body)
	}
}
