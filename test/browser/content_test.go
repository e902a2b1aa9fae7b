package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/store"
	"atrium/internal/transfer"
)

const (
	privatePage = "page_00000000000000000000000001"
	publicPage  = "page_00000000000000000000000002"
	draftPage   = "page_00000000000000000000000003"
)

// A contentServer serves a private, a public and a draft page, each with one audience.
type contentServer struct {
	base   string
	tenant atrium.TenantID
	store  *store.Store
}

func newContentServer(t *testing.T) *contentServer {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &contentServer{base: "http://" + apptest.Start(t, s), store: s}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Site")
	if err != nil {
		t.Fatal(err)
	}
	c.tenant = tenant.ID
	var lines []string
	for i, page := range []string{privatePage, publicPage, draftPage} {
		status := []string{"published", "published", "draft"}[i]
		lines = append(lines,
			fmt.Sprintf(`{"kind":"page","pageId":%q,"public":%t,"status":%q,"brandId":"b","name":"","pageContext":"","title":"","actions":[],"scripts":[],"footerLinks":[]}`, page, page == publicPage, status),
			fmt.Sprintf(`{"kind":"audience","audienceId":%q,"pageId":%q,"name":""}`, audienceOf(page), page),
			fmt.Sprintf(`{"kind":"audienceVersion","audienceId":%q,"versionNumber":1,"published":true,"content":%q}`, audienceOf(page), "content of "+page))
	}
	if _, err := transfer.Import(t.Context(), s, c.tenant, strings.NewReader(strings.Join(lines, "\n")), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func audienceOf(page string) string { return "audience_" + strings.TrimPrefix(page, "page_") }

// key returns a key that browsers may use at an origin.
func (c *contentServer) key(t *testing.T, origin string) string {
	t.Helper()
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, Name: "site", Scopes: atrium.Scopes{atrium.ScopeContentRead}, Origins: []string{origin}}
	if _, _, err := c.store.CreateKey(t.Context(), atrium.CommandLine(c.tenant), k, hash); err != nil {
		t.Fatal(err)
	}
	return text
}

// token returns the token of a preview of the draft page.
func (c *contentServer) token(t *testing.T) string {
	t.Helper()
	id, token, hash := auth.NewPreviewToken()
	p := atrium.Preview{ID: id, PageID: draftPage, AudienceID: atrium.AudienceID(audienceOf(draftPage)), Number: 1, ExpiresAt: atrium.At(time.Now().Add(time.Hour))}
	if _, _, err := c.store.CreatePreview(t.Context(), atrium.CommandLine(c.tenant), p, hash); err != nil {
		t.Fatal(err)
	}
	return token
}

// newSite serves an empty page with the function of docs/content.md at an origin of its own.
func newSite(t *testing.T) (origin string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/content.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```js\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("the page has no function")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html><title>Site</title><script>%s</script>", m[1])
	}))
	t.Cleanup(site.Close)
	return site.URL
}

// A browser shows the content of the API on a site exactly if the page is public, the key names the
// origin of the site, or the query of the site has a preview token.
func TestSitesShowContentInABrowser(t *testing.T) {
	server := newContentServer(t)
	allowed, other := newSite(t), newSite(t)
	key, token := server.key(t, allowed), server.token(t)
	browser := newBrowser(t)
	for _, c := range []struct {
		name, site, query, page, key, want string
	}{
		{"with a key", allowed, "", privatePage, key, "content of " + privatePage},
		{"with a key, elsewhere", other, "", privatePage, key, "Error: The key does not allow this origin."},
		{"private", allowed, "", privatePage, "", "null"},
		{"public", other, "", publicPage, "", "content of " + publicPage},
		{"public, with a key", allowed, "", publicPage, key, "content of " + publicPage},
		{"with an invalid key", other, "", publicPage, "x", "Error: A valid API key is needed in the x-api-key header."},
		{"draft", allowed, "", draftPage, key, "null"},
		{"preview", other, "?preview=" + token, draftPage, "", "content of " + draftPage},
		{"draft, with a wrong token", other, "?preview=x", draftPage, "", "null"},
		{"public, with a wrong token", other, "?preview=x", publicPage, "", "content of " + publicPage},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
			defer closeTab()
			b := &tab{t: t, ctx: ctx, server: c.site}
			b.open("/" + c.query)
			_ = get[bool](b, fmt.Sprintf(`(contentOf(%q, %q, %q, %q, %q).then(v => window.shown = String(v), e => window.shown = String(e)), true)`,
				server.base, server.tenant, c.page, audienceOf(c.page), c.key))
			b.until(`window.shown !== undefined`)
			if got := get[string](b, `window.shown`); got != c.want {
				t.Errorf("the page shows %q, want %q", got, c.want)
			}
		})
	}
}
