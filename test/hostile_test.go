package test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
)

// notStrict are bodies that are not strict JSON, or not an object, each with the location
// in the response ("" for any location).
var notStrict = map[string]string{
	``:     "(body)",
	` `:    "(body)",
	"\x00": "(body)",
	`null`: "(body)",
	`true`: "(body)",
	`1`:    "(body)",
	`"{}"`: "(body)",
	`[]`:   "(body)",
	`[{"source":"a","payload":{},"name":"a"}]`: "(body)",

	// duplicate names, at any depth and with any escapes
	`{"source":"a","source":"a","payload":{},"name":"a"}`:            "/source",
	`{"source":"a","payload":{},"name":"a","name":"b"}`:              "/name",
	`{"source":"a","payload":{},"name":"a","x":1,"x":2}`:             "/x",
	`{"source":"a","payload":{},"name":"a","payl\u006fad":{}}`:       "/payload",
	`{"source":"a","payload":{"a":1,"a":1},"name":"a"}`:              "/payload/a",
	`{"source":"a","payload":{"a":[{"b":{"c":1,"\u0063":1}}]}}`:      "/payload/a/0/b/c",
	`{"source":"a","payload":{"":1,"":1},"name":"a"}`:                "/payload/",
	`{"source":"a","payload":{"a/b~c":1,"a/b~c":1},"name":"a"}`:      "/payload/a~1b~0c",
	`{"source":"a","payload":{"😀":1,"\ud83d\ude00":1},"name":"a"}`:   "/payload/😀",
	`{"unknown":{"a":{},"a":{}},"source":"a","payload":{},"name":1}`: "/unknown/a",

	// invalid text
	"{\"source\":\"\xff\",\"payload\":{},\"name\":\"a\"}":                "/source",
	"{\"source\":\"a\",\"payload\":{\"a\":\"\xc3\"},\"name\":\"a\"}":     "/payload/a",
	"{\"source\":\"a\",\"payload\":{\"a\":\"\xc0\xaf\"},\"name\":\"a\"}": "/payload/a",
	"{\"source\":\"a\",\"payload\":{\"a\":\"\xed\xa0\x80\"}}":            "/payload/a",
	"{\"source\":\"a\",\"payload\":{\"a\":\"\xf5\x80\x80\x80\"}}":        "/payload/a",
	"{\"source\":\"a\",\"payload\":{\"\xe9\":1},\"name\":\"a\"}":         "/payload",
	`{"source":"\ud800","payload":{},"name":"a"}`:                        "/source",
	`{"source":"a","payload":{"a":"\udc00"},"name":"a"}`:                 "/payload/a",
	`{"source":"a","payload":{"a":["\ude00\ud83d"]},"name":"a"}`:         "/payload/a/0",
	`{"source":"a","payload":{"a":"\ud83d\u0041"},"name":"a"}`:           "/payload/a",
	`{"source":"a","payload":{"\ud83d":1},"name":"a"}`:                   "/payload",
	"{\"source\":\"a\nb\",\"payload\":{},\"name\":\"a\"}":                "/source",
	"{\"source\":\"a\tb\",\"payload\":{},\"name\":\"a\"}":                "/source",
	"{\"source\":\"a\x00b\",\"payload\":{},\"name\":\"a\"}":              "/source",
	`{"source":"\x41","payload":{},"name":"a"}`:                          "/source",
	`{"source":"\u00g0","payload":{},"name":"a"}`:                        "/source",
	"\ufeff" + `{"source":"a","payload":{},"name":"a"}`:                  "(body)",
	"\xff\xfe" + `{"source":"a","payload":{},"name":"a"}`:                "(body)",
	"{\x00\"\x00n\x00a\x00m\x00e\x00\"\x00:\x00\"\x00a\x00\"\x00}\x00":   "(body)", // UTF-16
	`{"source":"a","payload":{},"name":"a"}` + "\ufeff":                  "(body)",
	`{"source":"a","payload":{},"name":"a"}` + "\u00a0":                  "(body)",
	"{\"source\":\"a\",\u00a0\"payload\":{},\"name\":\"a\"}":             "(body)",
	`{"source":"a","payload":{},"name":"a"}x`:                            "(body)",
	`{"source":"a","payload":{},"name":"a"}{}`:                           "(body)",
	`{"source":"a","payload":{},"name":"a"}` + "\n" + `{"source":"a"}`:   "(body)",
	`{"source":"a","payload":{},"name":"a"},`:                            "(body)",
	`{"source":"a","payload":{},"name":"a"}}`:                            "(body)",
	`{"source":"a","payload":{},"name":"a"}` + "\x00":                    "(body)",
	`{"source":"a","payload":{},"name":"a"`:                              "(body)",
	`{"source":"a","payload":{},"name":"a`:                               "/name",
	`{"source":"a","payload":{},"name":`:                                 "/name",
	`{"source":"a","payload":{"a":`:                                      "/payload/a",
	`{`:                                                                  "(body)",
	`{"source":"a","payload":{},"name":"a",}`:                            "(body)",
	`{,"source":"a"}`: "(body)",
	`{"source" "a"}`:  "/source",
	`{source:"a"}`:    "(body)",
	`{'source':'a'}`:  "(body)",
	`{"source":"a" /* comment */,"payload":{}}`:               "(body)",
	"// comment\n" + `{"source":"a","payload":{},"name":"a"}`: "(body)",
	`source=a&payload={}`:                                     "(body)",
	`<source>a</source>`:                                      "(body)",
	`{"source":"a","payload":{"n":01},"name":"a"}`:            "/payload",
	`{"source":"a","payload":{"n":+1},"name":"a"}`:            "/payload/n",
	`{"source":"a","payload":{"n":.5},"name":"a"}`:            "/payload/n",
	`{"source":"a","payload":{"n":1.},"name":"a"}`:            "/payload/n",
	`{"source":"a","payload":{"n":1e},"name":"a"}`:            "/payload/n",
	`{"source":"a","payload":{"n":-},"name":"a"}`:             "/payload/n",
	`{"source":"a","payload":{"n":0x1},"name":"a"}`:           "/payload",
	`{"source":"a","payload":{"n":NaN},"name":"a"}`:           "/payload/n",
	`{"source":"a","payload":{"n":Infinity},"name":"a"}`:      "/payload/n",
	`{"source":"a","payload":{"n":True},"name":"a"}`:          "/payload/n",
	`{"source":"a","payload":{"n":undefined},"name":"a"}`:     "/payload/n",
	`{"source":"a","payload":{"a":[1,]},"name":"a"}`:          "",
	`{"source":"a","payload":{"a":[1 2]},"name":"a"}`:         "",
	`{"source":"a","payload":{"a":[}},"name":"a"}`:            "",
}

func TestInvalidJSONIsRejectedWithTheLocationOfItsFirstFault(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		before := s.export(t, s.north)
		for body, place := range notStrict {
			for _, r := range []request{post(s.north.key, body), patch(s, "acme", body)} {
				a := s.send(t, r)
				if a.status != 400 || place != "" && placesOf(a) != place || strings.Contains(placesOf(a), " ") {
					t.Errorf("%s %q: %s, want a 400 with %q", r.method, body, a, place)
				}
				for _, fault := range checkExchange(t, r, a) {
					t.Errorf("%s %q: %s", r.method, body, fault)
				}
			}
		}
		if after := s.export(t, s.north); strings.Join(after, "\n") != strings.Join(before, "\n") {
			t.Errorf("what was refused has changed something")
		}
	})
}

func patch(s *service, account, body string, header ...string) request {
	return request{
		method: "PATCH", target: "/v0/accounts/" + s.vars[account], body: []byte(body),
		header: append([]string{"x-api-key: " + s.north.key, "Content-Type: application/json"}, header...),
	}
}

func TestNestingIsLimitedTo64Levels(t *testing.T) {
	nest := func(n int, open, shut string) string { return strings.Repeat(open, n) + strings.Repeat(shut, n) }
	onEveryEngine(t, func(t *testing.T, s *service) {
		for form, levels := range map[string]int{ // of the body in this form
			`{"source":"a","name":"a","payload":{"a":%s}}`:        2,
			`{"source":"a","name":"a","payload":{},"x":%s}`:       1,
			`{"x":%s,"source":"a","name":"a","payload":{}}`:       1,
			`{"source":"a","name":"a","payload":{"a":[1,[],%s]}}`: 3,
		} {
			for n, want := range map[int]int{64 - levels: 0, 65 - levels: 400, 200_000: 400, 520_000: 400} {
				for _, nested := range []string{nest(n, "[", "]"), nest(n, `{"":`, "}"), strings.Repeat("[", n)} {
					if n*5 > 1<<20 && nested[0] == '{' || want == 0 && nested[len(nested)-1] == '[' {
						continue // too large, and unbalanced in any case
					}
					nested = strings.ReplaceAll(nested, `:}`, `:1}`)
					body := fmt.Sprintf(form, nested)
					for _, r := range []request{post(s.north.key, body), patch(s, "acme", body)} {
						a := s.send(t, r)
						if want == 0 && a.status >= 300 || want != 0 && a.status != want {
							t.Errorf("%s with %d levels of %.5s in %s: %s", r.method, n, nested, form, clip(a.String()))
						}
						for _, fault := range checkExchange(t, r, a) {
							t.Errorf("%s with %d levels: %s", r.method, n, fault)
						}
					}
				}
			}
		}
	})
}

// large writes a body until the server stops reading. It returns the response and the
// number of bytes written.
func (s *service) large(t *testing.T, head string, piece []byte, times int) (a response, written int) {
	t.Helper()
	conn := s.dial(t)
	defer func() { _ = conn.Close() }()
	total := make(chan int, 1)
	go func() {
		n := 0
		_, err := conn.Write([]byte(head))
		for i := 0; err == nil && (times == 0 || i < times); i++ {
			var m int
			m, err = conn.Write(piece)
			n += m
		}
		total <- n
	}()
	a = receive(t, conn, "POST")
	_ = conn.Close()
	return a, <-total
}

func TestOversizedBodiesAreRejectedEarly(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 64<<10)
	chunk := fmt.Appendf(nil, "%x\r\n%s\r\n", len(piece), piece)
	start := "POST /v0/account_logs HTTP/1.1\r\nHost: atrium.test\r\nConnection: close\r\nx-api-key: %s\r\n"
	const whole = 40 << 20
	onEveryEngine(t, func(t *testing.T, s *service) {
		start := fmt.Sprintf(start, s.north.key)
		for name, c := range map[string]struct {
			head  string
			piece []byte
			times int
		}{
			"40 MB of a stated length": {fmt.Sprintf("%sContent-Length: %d\r\n\r\n", start, whole), piece, whole / len(piece)},
			"40 MB in chunks":          {start + "Transfer-Encoding: chunked\r\n\r\n", chunk, whole / len(piece)},
			"chunks without an end":    {start + "Transfer-Encoding: chunked\r\n\r\n", chunk, 0},
			"one chunk without an end": {start + "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", piece, 0},
		} {
			a, written := s.large(t, c.head, c.piece, c.times)
			if a.status != 413 || written >= whole {
				t.Errorf("%s: the server read %d bytes and returned %s", name, written, a)
			}
			for _, fault := range checkExchange(t, post(s.north.key, ""), a) {
				t.Errorf("%s: %s", name, fault)
			}
		}
	})
}

func TestTruncatedBodyIsNotStored(t *testing.T) {
	const body = `{"source":"broken off","payload":{}}`
	onEveryEngine(t, func(t *testing.T, s *service) {
		for name, framed := range map[string]string{
			"a stated length":  fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+1, body),
			"nothing at all":   "Content-Length: 5\r\n\r\n",
			"a chunk":          fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body)+1, body),
			"the last chunk":   fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body),
			"a malformed one":  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n\r\n", len(body), body),
			"a chunk too long": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%sxx\r\n0\r\n\r\n", len(body), body),
		} {
			conn := s.dial(t)
			fmt.Fprintf(conn, "POST /v0/account_logs HTTP/1.1\r\nHost: atrium.test\r\nx-api-key: %s\r\n%s", s.north.key, framed)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			a := receive(t, conn, "POST")
			if a.status != 400 || placesOf(a) != "(body)" {
				t.Errorf("%s: %s, want a 400 at (body)", name, a)
			}
			for _, fault := range checkExchange(t, post(s.north.key, ""), a) {
				t.Errorf("%s: %s", name, fault)
			}
			_ = conn.Close()
		}
		if n := s.count(t, s.north, "broken off"); n != 0 {
			t.Errorf("%d of them are stored", n)
		}
	})
}

func TestSlowBodiesBlockNoOtherRequest(t *testing.T) {
	const slow = 200
	onEveryEngine(t, func(t *testing.T, s *service) {
		conns := make([]net.Conn, slow)
		for i := range conns {
			conns[i] = s.dial(t)
			defer func() { _ = conns[i].Close() }()
			r := post(s.north.key, fmt.Sprintf(`{"source":"slow","payload":{"n":%d}}`, i))
			whole := r.bytes()
			if _, err := conns[i].Write(whole[:len(whole)-1-i%len(r.body)]); err != nil {
				t.Fatal(err)
			}
		}
		if a := s.send(t, post(s.north.key, `{"source":"quick","payload":{}}`)); a.status != 201 {
			t.Errorf("another request at that time: %s", a)
		}
		for i, conn := range conns {
			r := post(s.north.key, fmt.Sprintf(`{"source":"slow","payload":{"n":%d}}`, i))
			whole := r.bytes()
			if _, err := conn.Write(whole[len(whole)-1-i%len(r.body):]); err != nil {
				t.Fatal(err)
			}
			if a := receive(t, conn, "POST"); a.status != 201 {
				t.Errorf("slow body %d: %s", i, a)
			}
		}
		if n := s.count(t, s.north, `"source":"slow"`); n != slow {
			t.Errorf("%d slow entries are stored, want %d", n, slow)
		}
	})
}

func TestProblemsNeverEchoInput(t *testing.T) {
	const secret = "sesame7f3a"
	onEveryEngine(t, func(t *testing.T, s *service) {
		long := strings.Repeat(secret, 40)
		body := fmt.Sprintf(`{"source":%q,"type":%q,"accountId":%q,"name":%q,"idempotencyKey":%q,"domain":1,"payload":%q}`,
			long, long, secret, long, long, secret)
		for _, r := range []request{
			post(s.north.key, body, "Idempotency-Key: "+long),
			post(s.north.key, `{"source":"a","payload":{"a":"`+secret+`\ud800"}}`),
			post(s.north.key, `{"source":"a","payload":{}}`+secret),
			post(s.north.key, secret),
			post(secret, body),
			post(s.north.key, body, "Content-Encoding: "+secret),
			post(s.north.key, body, "Accept: "+secret+"/"+secret),
			patch(s, "acme", `{"name":"`+long+`"}`),
			patch(s, "acme", `{"name":"a"}`, `If-Match: "`+secret+`"`),
			{method: "PATCH", target: "/v0/accounts/" + secret, body: []byte(`{"name":"a"}`), header: []string{"x-api-key: " + s.north.key}},
			get("/v0/accounts/"+secret, "x-api-key: "+s.north.key),
			get("/v0/pages?limit="+secret+"&status="+secret+"&cursor="+secret, "x-api-key: "+s.north.key),
			get("/v0/pages/"+s.vars["full"]+"/audiences/"+s.vars["readers"]+"/versions?page="+secret+"&include="+secret, "x-api-key: "+s.north.key),
			get("/" + secret),
			get("//" + secret),
			{method: secret, target: "/v0/pages"},
		} {
			a := s.send(t, r)
			if a.status < 400 || bytes.Contains(a.body, []byte(secret)) {
				t.Errorf("%s %s: %s", r.method, r.target, a)
			}
		}
	})
}
