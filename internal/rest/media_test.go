package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"atrium"
)

func TestMostSpecificRangeOfAcceptDecides(t *testing.T) {
	for _, c := range []struct {
		accept []string
		want   bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{" "}, true},
		{[]string{"", ""}, true},
		{[]string{","}, true},
		{[]string{"*/*"}, true},
		{[]string{"application/json"}, true},
		{[]string{"APPLICATION/JSON"}, true},
		{[]string{"application/*"}, true},
		{[]string{"application/json;q=0.001"}, true},
		{[]string{"application/json; charset=utf-8; q=1.0"}, true},
		{[]string{"text/html, application/xhtml+xml, */*;q=0.8"}, true},
		{[]string{"text/html", "application/json"}, true},
		{[]string{"", "application/json"}, true},
		{[]string{"*/*;q=0, application/*;q=0.1"}, true},
		{[]string{"application/*;q=0", "application/json"}, true},
		{[]string{"application/json", "*/*;q=0"}, true},

		{[]string{"text/html"}, false},
		{[]string{"", "text/html"}, false},
		{[]string{"text/*"}, false},
		{[]string{"application/xml, text/html"}, false},
		{[]string{"application/problem+json"}, false},
		{[]string{"application/json;q=0"}, false},
		{[]string{"application/json;q=0.000"}, false},
		{[]string{"*/*;q=0"}, false},
		{[]string{"*/*, application/json;q=0"}, false},
		{[]string{"*/*", "application/json;q=0"}, false},
		{[]string{"application/json;q=0", "*/*"}, false},
		{[]string{"application/*;q=0, */*;q=1"}, false},

		{[]string{";;;"}, true}, // malformed ranges are ignored
		{[]string{"@/@"}, true},
		{[]string{";;;, text/html"}, false},
		{[]string{"application/json;q=x"}, true},

		{[]string{strings.Repeat("a/b,", 255)}, false},
		{[]string{strings.Repeat("a/b,", 128), strings.Repeat("a/b,", 129)}, true}, // too long, disregarded
	} {
		if got := accepts(c.accept, JSON); got != c.want {
			t.Errorf("Accept %q: JSON accepted: %v", c.accept, got)
		}
	}
}

func TestBodyMustBeJSONInUTF8WithoutContentCoding(t *testing.T) {
	for _, c := range []struct {
		types, codings []string
		want           bool
	}{
		{nil, nil, true},
		{[]string{""}, []string{""}, true},
		{[]string{"application/json"}, nil, true},
		{[]string{"Application/Json ; Charset=\"UTF-8\""}, []string{"Identity"}, true},
		{[]string{"application/json;v=1"}, []string{"identity", " identity "}, true},

		{[]string{"application/json;a=" + strings.Repeat("b", 1000)}, nil, true},

		{[]string{"application/json;a=" + strings.Repeat("b", 1100)}, nil, false}, // too long to be parsed
		{[]string{"application/json", "application/json"}, nil, false},
		{[]string{"application/json;charset=latin1"}, nil, false},
		{[]string{"application/json;charset="}, nil, false},
		{[]string{"application/json+x"}, nil, false},
		{[]string{"text/plain"}, nil, false},
		{[]string{"json"}, nil, false},
		{[]string{"/"}, nil, false},
		{nil, []string{"gzip"}, false},
		{nil, []string{"identity", "br"}, false},
		{nil, []string{"identity, br"}, false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header["Content-Type"], r.Header["Content-Encoding"] = c.types, c.codings
		w := httptest.NewRecorder()
		err := checkContentType(w, r, JSON)
		if (err == nil) != c.want || err != nil && atrium.CodeOf(err) != atrium.CodeUnsupportedMediaType {
			t.Errorf("Content-Type %q, Content-Encoding %q: %v", c.types, c.codings, err)
		}
	}
}

func TestOnlyBrowsersPreferHTML(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"text/html":                         true,
		"application/json;q=0.5, text/html": true,
		"application/json, text/html":       true,

		"":                                  false,
		"*/*":                               false,
		"text/*":                            false,
		"application/json":                  false,
		"application/json, text/plain, */*": false,
		"application/json, text/html;q=0.9": false,
		"text/html;q=0":                     false,
		"text/html;q=NaN":                   false,
		";;;":                               false,
	} {
		if got := prefersHTML([]string{accept}); got != want {
			t.Errorf("Accept %q: prefers HTML: %v", accept, got)
		}
	}
	if prefersHTML([]string{"text/html" + strings.Repeat(",a/b", 255)}) {
		t.Error("a header that is too long is not disregarded")
	}
	if prefersHTML(nil) || !prefersHTML([]string{"*/*", "text/html"}) {
		t.Error("no header prefers nothing; a list of headers is one list")
	}
}
