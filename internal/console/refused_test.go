package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"atrium"
)

// The response to a client is the same for every key that does not work. The page tells the tenant why.
func TestARefusedKeyIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		status    int
		key, want string
	}{
		"revoked":  {http.StatusOK, `{"name":"Newsletter","revokedAt":"2026-03-02T10:00:00.000Z"}`, "The key Newsletter was revoked <time"},
		"expired":  {http.StatusOK, `{"name":"Newsletter","expiresAt":"2026-03-02T10:00:00.000Z"}`, "The key Newsletter expired <time"},
		"rotated":  {http.StatusOK, `{"name":"<b>","expiresAt":"2099-03-02T10:00:00.000Z"}`, "The key &lt;b&gt; was rotated"},
		"unknown":  {http.StatusNotFound, `{"code":"not_found"}`, "A valid API key is needed."},
		"not seen": {http.StatusForbidden, `{"code":"forbidden"}`, "A valid API key is needed."},
	} {
		t.Run(name, func(t *testing.T) {
			console, _, tenant, session := newLimitedSession(t)
			calls := 0
			console.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.Contains(r.URL.Path, "/keys/"):
					calls++
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.key)
				case strings.HasSuffix(r.URL.Path, "/refused_requests"):
					const row = `{"code":"` + string(atrium.CodeUnauthenticated) + `","detail":"A valid API key is needed.","keyId":"key_01kzdemo00000000000000000a"}`
					_, _ = io.WriteString(w, `{"items":[`+row+`,`+row+`,{"code":"not_found","detail":"No account."}]}`)
				default:
					_, _ = io.WriteString(w, `{}`)
				}
			})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"/"+string(tenant)+"/refused", nil)
			r.AddCookie(&http.Cookie{Name: plainCookie, Value: session})
			r.SetPathValue("tenant_id", string(tenant))
			w := httptest.NewRecorder()
			console.Handlers()["GET "+of+"/refused"].ServeHTTP(w, r)
			page := w.Body.String()
			if strings.Count(page, c.want) != 2 || !strings.Contains(page, "No account.") || calls != 1 {
				t.Errorf("after %d calls: %s", calls, page)
			}
		})
	}
}
