package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"atrium/test/nodes"
)

func TestUnusualTargetsDoNotMatchRoutes(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *server) {
		c := s.dial(t)
		c.send(s.post("known", ""))
		_, account, _ := strings.Cut(c.must(http.MethodPost).body, `"accountId":"`)
		account, _, _ = strings.Cut(account, `"`)
		c.end()
		for target, status := range map[string]int{
			"/v0/accounts/" + account:                     200, // the reference for the others
			"/v0/accounts/" + account + "?a=%zz&b;c&&=&%": 200, // unknown parameters
			"http://[::1]:99999/v0/accounts/" + account:   200,
			"http://user:secret@a/v0/accounts/" + account: 200,
			"gopher://a/v0/accounts/" + account:           200,

			// RFC 9112 section 3.2 allows no other forms.
			"": 400, "*": 404, "atrium.test:80": 404, "v0/pages": 400, "?a": 400, "#a": 400, "/v0/pages#a": 404, "http://": 404, "http:": 404,
			"//" + s.Addr + "/v0/pages": 404, "mailto:a@b": 404, "\\v0\\pages": 400, "/v0\\pages": 404,

			// percent-encodings
			"/v0/pages%": 400, "/v0/pages%2": 400, "/v0/pages%zz": 400, "/v0/pages%u0041": 400, "/v0/pages%00": 404, "/v0/accounts/%00": 404,
			"/v0/accounts/" + account + "%0d%0aX-Forged:%20a": 404, "/v0/accounts/" + account + "%0": 400,

			// other encodings of a slash, a dot or a letter
			"/v0/..;/v0/pages": 404, "/v0/pages/..;/": 404, "/v0/pages/..;/pages": 404, "/v0/pages;a=b": 404, "/;/v0/pages": 404, "/v0/%2e%2e/v0/pages": 404,
			"/v0/..%2fv0/pages": 404, "/v0/..%5cv0/pages": 404, "/v0/%252e%252e/v0/pages": 404, "/v0%2fpages": 404, "/v0/pages%2f": 404, "/v0/pages/%2e": 404,
			"/v0/%c0%ae%c0%ae/v0/pages": 404, "/v0%c0%afpages": 404, "/v0/pages/%c0%af": 404, "/v0%e0%80%afpages": 404, "/v0%f0%80%80%afpages": 404,
			"/v0/accounts/%c1%a1" + account[1:]: 404, "/v0/accounts/\xc1\xa1" + account[1:]: 404, "/v0/accounts/%ef%bd%81" + account[1:]: 404,
			"/v0\xc0\xafpages": 404, "/v0/\xc0\xae\xc0\xae/v0/pages": 404, "/v0/pages/\xff\xfe": 404, "/v0/pages/\xed\xa0\x80": 404,
			"/v0/pages\x00": 400, "/v0/pages\x01": 400, "/v0/pages\x7f": 400, "/v0/pages\t": 400, "/v0/pages\r": 400, "/v0/pages \x00": 400,
			"/manage/v0/../../v0/pages": 404, "/manage/..;/v0/pages": 404, "/healthz/../manage/v0/tenants": 404, "/errors/..%2f..%2fetc%2fpasswd": 404,
		} {
			c := s.dial(t)
			c.send(s.get(target, "X-Request-Id: here\r\n"))
			a, err := c.response(http.MethodGet)
			if err != nil || a.status != status || a.header.Get("Location") != "" || a.header.Get("X-Forged") != "" {
				t.Errorf("%q: %v %v, want %d", target, a, err, status)
			}
			if problem := a.header.Get("Content-Type") == "application/problem+json"; problem != (status == 404) {
				t.Errorf("%q: %v is of the wrong form", target, a)
			}
			if status == 400 {
				c.ended(target)
			} else {
				c.usable(target)
			}
			c.end()
		}
		for method, status := range map[string]int{
			"CONNECT": 405, "TRACE": 405, "PRI": 405, "OPTIONS": 405, "get": 405, "GETS": 405, "G\xc9T": 400, "G(T": 400, "": 400, "GET\x00": 400, strings.Repeat("A", 8000): 405,
		} {
			c := s.dial(t)
			c.send(strings.Replace(s.get("/v0/pages", ""), "GET", method, 1))
			if a, err := c.response(http.MethodPost); err != nil || a.status != status || strings.Contains(a.body, s.key) {
				t.Errorf("the method %.20q: %v %v, want %d", method, a, err, status)
			}
			c.end()
		}
		c = s.dial(t)
		defer c.end()
		c.send("CONNECT atrium.test:443 HTTP/1.1\r\nHost: atrium.test:443\r\n\r\n")
		if a := c.must(http.MethodPost); a.status != 404 {
			t.Errorf("CONNECT to an authority: %v", a)
		}
	})
}

func TestOnlyASingleKeyHeaderAuthenticates(t *testing.T) {
	t.Parallel()
	s := start(t, onSQLite(t))
	refused := map[string]bool{}
	for headers, status := range map[string]int{
		"x-api-key: " + s.key:           200,
		"X-API-KEY: " + s.key:           200,
		"x-api-key: \t" + s.key + " \t": 200,
		"X: a":                          401,
		"x-api-key: " + s.key + "\r\nx-api-key: " + s.key:     401,
		"x-api-key: " + s.key + "\r\nX-API-Key: " + s.key:     401,
		"x-api-key: " + s.key + "\r\nX-Api-Key: nothing":      401,
		"x-api-key: nothing\r\nX-Api-Key: " + s.key:           401,
		"x-api-key:\r\nx-api-key: " + s.key:                   401,
		"x-api-key: " + s.key + ", " + s.key:                  401,
		"x-api-key: " + s.key + "," + s.key:                   401,
		"x_api_key: " + s.key:                                 401,
		"Authorization: Bearer " + s.key:                      401,
		"Cookie: x-api-key=" + s.key:                          401,
		"x-api-key: nothing\r\n " + s.key:                     401,
		`x-api-key: "` + s.key + `"`:                          401,
		"x-api-key: " + strings.Replace(s.key, "a", "а", 1):   401, // a Cyrillic one
		"x-api-key: " + s.key[:len(s.key)-1]:                  401,
		"x-api-key: " + s.key + s.key:                         401,
		"x-api-key: " + strings.Repeat("a", 15_000):           401,
		"x-api-key: " + strings.Repeat("\xff", len(s.key)):    401,
		"x-api-key: " + strings.ToUpper(s.key):                401,
		"x-api-key: " + s.key + "\r\nx-api-key: \r\nX: a":     401,
		"x-api-key: atr_" + strings.Repeat("0", len(s.key)-4): 401,
	} {
		c := s.dial(t)
		c.send("GET /v0/pages HTTP/1.1\r\nHost: a\r\nX-Request-Id: same\r\n" + headers + "\r\n\r\n")
		a := c.must(http.MethodGet)
		if a.status != status {
			t.Errorf("%.200q: %v, want %d", headers, a, status)
		}
		if a.status == 401 {
			a.header.Del("Date")
			refused[fmt.Sprint(a.header, a.body)] = true
		}
		c.end()
	}
	if len(refused) != 1 {
		t.Errorf("keys are refused in %d ways: %v", len(refused), refused)
	}
}

// forgeries are texts that could inject a log line, a log member or a header.
var forgeries = []string{
	`forged"level=ERROR`, `forged","level":"ERROR`, `forged=1\n`, `forged\u000alevel=ERROR`, `forged%0d%0aforged:1`, `forged{{.}}${jndi:ldap://a}`,
	"forged level=ERROR msg=forged", "forged\r\n forged: folded", "forged\r forged: a", "forged\x00forged", "forged\x1b[2J", "forged\u2028forged", "forged\xff", "forged\x85",
}

func TestInputCannotForgeHeadersOrLogLines(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := start(t, onSQLite(t), "--log-format", format)
			for i, text := range forgeries {
				for _, sent := range []string{
					s.get("/v0/pages", "X-Request-Id: "+text+"\r\n"),
					s.get("/nowhere", "X-Request-Id: "+text+"\r\nUser-Agent: "+text+"\r\nReferer: "+text+"\r\n"),
					s.get("/v0/pages?"+text, ""), s.get("/"+text, ""), s.get("/v0/pages/"+text, ""),
					strings.Replace(s.get("/v0/pages", ""), "GET", text, 1),
					strings.Replace(s.get("/v0/pages", ""), "atrium.test", text, 1),
					"GET /v0/pages HTTP/1.1\r\nHost: a\r\nx-api-key: " + text + "\r\n\r\n",
					s.head("Idempotency-Key: " + text + "\r\nContent-Type: " + text + "\r\nContent-Length: 2\r\n\r\n{}"),
				} {
					c := s.dial(t)
					c.send(sent)
					a := c.must(http.MethodGet)
					if a.status < 200 || a.status >= 500 || a.header.Get("Forged") != "" || strings.Contains(a.body, "forged: ") {
						t.Errorf("%.200q: %v", sent, a)
					}
					if id := a.header.Get("X-Request-Id"); id != "" && id != text && !strings.HasPrefix(id, "req_") {
						t.Errorf("%.200q: X-Request-Id is %q", sent, id)
					}
					c.end()
				}
				last := s.dial(t)
				last.usable(fmt.Sprintf("after text %d", i))
				last.end()
			}
			nodes.Until(t, "the last line of the log", exchangeTimeout, func() bool { return strings.Count(s.Log(), "usable") >= len(forgeries) })
			for line := range strings.Lines(s.Log()) {
				if !wellFormed(format, strings.TrimSuffix(line, "\n")) {
					t.Errorf("the log has the line %q", line)
				}
			}
		})
	}
}

// textLine matches a line of slog's text format: unquoted values have no white space.
var textLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN) msg=("(\\.|[^"\\])*"|[^\s"]+)( [a-zA-Z]+=("(\\.|[^"\\])*"|[^\s"=]*))*$`)

// wellFormed reports whether a log line has exactly the members that the server wrote,
// each once, and no terminal escape sequences.
func wellFormed(format, line string) bool {
	if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0x85 || c == 0x2028 }) {
		return false
	}
	if format == "text" {
		return textLine.MatchString(line) && strings.Count(line, " level=") == 1
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		return false
	}
	return members["level"] != "ERROR" && members["msg"] != "forged" && members["forged"] == nil
}
