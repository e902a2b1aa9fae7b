package test

import (
	"bufio"
	"net/http"
	"testing"
)

func TestStorageOutageReturns503Not401(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		cached := s.send(t, get("/v0/pages", "x-api-key: "+s.north.key))
		if err := s.store.Close(); err != nil {
			t.Fatal(err)
		}
		for _, r := range []request{
			get("/readyz"),
			get("/v0/pages", "x-api-key: "+s.north.key),
			get("/v0/pages", "x-api-key: "+s.south.key), // never looked up before
			get("/v0/pages", "x-api-key: "+s.vars["key.unknown"]),
			get("/v0/pages/"+s.vars["full"], "x-api-key: "+s.north.key),
			get("/v0/accounts/"+s.vars["acme"], "x-api-key: "+s.north.key),
			get("/v0/pages/"+s.vars["full"]+"/audiences/"+s.vars["readers"]+"/versions", "x-api-key: "+s.north.key),
			patch(s, "acme", `{"name":"a"}`),
			post(s.north.key, `{"source":"a","payload":{}}`),
		} {
			a := s.send(t, r)
			if a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %s, want a 503 with Retry-After", r.method, r.target, a)
			}
			for _, fault := range checkExchange(t, r, a) {
				t.Errorf("%s %s: %s", r.method, r.target, fault)
			}
		}
		for r, want := range map[string]int{"/healthz": 200, "/openapi.json": 200, "/errors/unavailable": 200, "/nowhere": 404} {
			if a := s.send(t, get(r)); a.status != want {
				t.Errorf("%s: %s, want %d", r, a, want)
			}
		}
		if a := s.send(t, get("/v0/pages", "x-api-key: x")); a.status != 401 || cached.status != 200 {
			t.Errorf("a malformed key needs no storage: %s", a)
		}
	})
}

func TestUnreadBodyIsNotParsedAsARequest(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		smuggled := string(get("/healthz").bytes())
		for name, c := range map[string]struct {
			r      request
			status int
		}{
			"no such path":       {request{method: "POST", target: "/nowhere", body: []byte(smuggled)}, 404},
			"no such method":     {request{method: "PUT", target: "/v0/pages", body: []byte(smuggled)}, 405},
			"no key":             {request{method: "POST", target: "/v0/account_logs", body: []byte(smuggled)}, 401},
			"another media type": {post(s.north.key, smuggled, "Content-Encoding: gzip"), 415},
			"a body with a GET":  {request{method: "GET", target: "/healthz", body: []byte(smuggled)}, 200},
			"a HEAD":             {request{method: "HEAD", target: "/nowhere", body: []byte(smuggled)}, 404},
			"what is no JSON":    {post(s.north.key, smuggled), 400},
			"an entry":           {post(s.north.key, `{"source":"a","payload":{}}`), 201},
		} {
			conn := s.dial(t)
			defer func() { _ = conn.Close() }()
			c.r.keepAlive = true
			next := get("/v0/accounts/"+s.vars["acme"], "x-api-key: "+s.north.key)
			if _, err := conn.Write(append(c.r.bytes(), next.bytes()...)); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			if a := readResponse(t, in, c.r.method); a.status != c.status {
				t.Errorf("%s: %s, want %d", name, a, c.status)
			}
			a := readResponse(t, in, http.MethodGet)
			if a.status != 200 {
				t.Errorf("%s: the next request on the connection: %s", name, a)
			}
			for _, fault := range checkExchange(t, next, a) {
				t.Errorf("%s: %s", name, fault)
			}
		}
	})
}
