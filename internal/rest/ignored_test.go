package rest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium/internal/strictjson"
)

// ignoredOf returns the header and the count for a request whose handler decodes the member and the
// parameter known.
func ignoredOf(t interface{ Fatal(args ...any) }, query, body string) (header []string, count int) {
	w := &recorder{ResponseWriter: httptest.NewRecorder()}
	request := httptest.NewRequest(http.MethodPost, "/", nil)
	request.URL.RawQuery = query
	r := &Request{http: request, requestLimits: requestLimits{writer: w}}
	if query != "no query" {
		r.Query().Text("known")
	}
	if body != "" {
		o, err := strictjson.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		o.Value("known")
		r.IgnoreUnknown(o)
	}
	r.reportIgnored()
	return w.Header()[headerIgnored], w.IgnoredFields
}

func TestIgnoredFieldsAreNamedInAHeader(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		query, body, header string
		count               int
	}{
		{"", "", "", 0},
		{"", `{"known":1}`, "", 0},
		{"known=1&&", `{"known":1}`, "", 0},
		{"%6Bnown=1", "", "", 0},
		{"no query", "", "no%20query", 1},
		{"a=1&known=2&b", `{"domian":1,"known":{"inner":1},"tyep":2}`, "domian, tyep, a, b", 4},
		{"a=1&a=2&%61=3", `{"a":1}`, "a", 4},
		{"%zz=1&=1", "", `%25zz, ""`, 2},
		{"a+b%0D%0AX-Injected:+1=1&%ff%FE", "", "a%20b%0D%0AX-Injected%3A%201, %FF%FE", 2},
		{"", `{"a,b":1,"é":2,"\u0000\r\n":3,"$x-y_z.~":4,"K":5}`, "a%2Cb, %C3%A9, %00%0D%0A, $x-y_z.~, K", 5},
		{"", `{"` + long + `":1,"` + long + `a":2,"` + long[:63] + `é":3}`, long + ", " + long + "..., " + long[:63] + "...", 3},
		{"11&12&12", `{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1}`, "1, 2, 3, 4, 5, 6, 7, 8, 9, 11, ...", 12},
		{"1", `{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1}`, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...", 12},
	} {
		header, count := ignoredOf(t, c.query, c.body)
		if got := strings.Join(header, "\n"); got != c.header || count != c.count || len(header) > 1 {
			t.Errorf("?%s %s: %q and %d, want %q and %d", c.query, c.body, got, count, c.header, c.count)
		}
	}
}

var safeHeader = regexp.MustCompile(`^((""|[A-Za-z0-9%._~$-]{1,67})(, |$)){1,11}$`)

func TestIgnoredHeaderIsSafeShortAndDecodable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })),
			1, 14, func(name string) string { return name }).Draw(t, "names")
		var f ignoredFields
		for _, name := range names {
			f.add(name)
		}
		header := f.header()
		if !safeHeader.MatchString(header) {
			t.Fatalf("%q has the header %q", names, header)
		}
		want := names[:min(len(names), maxIgnoredNames)]
		for i, item := range strings.Split(header, ", ") {
			cut, isCut := strings.CutSuffix(item, ignoredMore)
			decoded, err := url.PathUnescape(strings.Trim(cut, `"`))
			switch {
			case err != nil:
				t.Fatalf("%q: %v", header, err)
			case i == len(want) && item == ignoredMore && len(names) > len(want):
			case i >= len(want), decoded != want[i] && (!isCut || !strings.HasPrefix(want[i], decoded)):
				t.Fatalf("item %d of %q is %q, want %q", i, header, decoded, want)
			}
		}
	})
}

func TestRequestsWithoutIgnoredFieldsAllocateNothing(t *testing.T) {
	w := &recorder{ResponseWriter: httptest.NewRecorder()}
	o, err := strictjson.Parse([]byte(`{"a":1,"b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Value("a")
	o.Value("b")
	request := httptest.NewRequest(http.MethodGet, "/?limit=5&cursor=x", nil)
	r := &Request{http: request, requestLimits: requestLimits{writer: w}, query: &Query{raw: request.URL.RawQuery, decoded: slices.Clone([]string{"limit", "cursor"})}}
	if n := testing.AllocsPerRun(100, func() {
		r.IgnoreUnknown(o)
		r.reportIgnored()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
