package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// prospectLines are import lines of an account and of prospects linked to it.
func prospectLines(account string, n int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"account","accountId":%q,"domain":"crowded.example"}`+"\n", account)
	slug := strings.Repeat("x", 500)
	for i := range n {
		fmt.Fprintf(&b, `{"kind":"prospect","prospectId":"prospect_crowd%021d","slug":%q,"accountIds":[%q]}`+"\n", i, slug, account)
	}
	return b.String()
}

const (
	crowded   = "account_00000000000000000000crowde"
	crowdSize = 20_000
)

// crowdedAccount has the compared members of an account, as both APIs show it.
type crowdedAccount struct {
	AccountID, Name string
	LinkedProspects []struct{ ProspectID, Slug string }
	Merged          []struct{ AccountID string }
}

func decodeCrowded(t *testing.T, a response) (shown crowdedAccount) {
	t.Helper()
	if err := json.Unmarshal(a.body, &shown); err != nil {
		t.Fatalf("%d with %d bytes: %v", a.status, len(a.body), err)
	}
	return shown
}

// wantCrowd checks that a response has all prospects in order.
func wantCrowd(t *testing.T, a response) {
	t.Helper()
	shown := decodeCrowded(t, a)
	for i, p := range shown.LinkedProspects {
		if want := fmt.Sprintf("prospect_crowd%021d", i); p.ProspectID != want || len(p.Slug) != 500 {
			t.Fatalf("prospect %d is %s, want %s", i, p.ProspectID, want)
		}
	}
	if a.status != 200 || len(shown.LinkedProspects) != crowdSize || a.header.Get("Content-Length") != strconv.Itoa(len(a.body)) {
		t.Fatalf("%d with %d prospects, %v", a.status, len(shown.LinkedProspects), a.header)
	}
}

// onEachEngine is onEveryEngine for a test that measures the process, so engines do not
// run in parallel.
func onEachEngine(t *testing.T, test func(t *testing.T, s *service)) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) { test(t, start(t, e.open(t))) })
	}
}

func TestAccountWithManyProspectsUsesBoundedMemory(t *testing.T) {
	onEachEngine(t, func(t *testing.T, s *service) {
		s.load(t, s.north, prospectLines(crowded, crowdSize))
		r := get("/v0/accounts/"+crowded, "x-api-key: "+s.north.key)
		whole := s.send(t, r)
		wantCrowd(t, whole)
		whole.body = nil

		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		const most = 2 << 20
		before := heap()
		conn := s.dial(t)
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(r.bytes()); err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 64<<10)
		if _, err := io.ReadFull(conn, part); err != nil || !bytes.HasPrefix(part, []byte("HTTP/1.1 200")) {
			t.Fatalf("%.100s, %v", part, err)
		}
		// While the service fills the socket's buffers, a collection counts what is
		// allocated during it as held: the figure is right once the writer waits.
		grown := heap() - before
		for end := time.Now().Add(10 * time.Second); grown > most && time.Now().Before(end); grown = heap() - before {
			time.Sleep(10 * time.Millisecond)
		}
		if grown > most {
			t.Errorf("a reader in the middle of its response holds %d bytes, want at most %d", grown, most)
		}
		if n, err := io.Copy(io.Discard, conn); err != nil || n < crowdSize*500-int64(len(part)) {
			t.Errorf("the rest has %d bytes, %v", n, err)
		}
	})
}

func TestAccountWithManyProspectsSupportsConditionalRequests(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		s.load(t, s.north, prospectLines(crowded, 300))
		external, manage := "/v0/accounts/"+crowded, "/manage/v0/accounts/"+crowded
		send := func(method, target, body string, header ...string) response {
			t.Helper()
			r := request{method: method, target: target, header: append([]string{"x-api-key: " + s.north.keyFor(target)}, header...)}
			if body != "" {
				r.body, r.header = []byte(body), append(r.header, "Content-Type: application/json")
			}
			a := s.send(t, r)
			for _, fault := range checkExchange(t, r, a) {
				t.Errorf("%s %s: %s", method, target, fault)
			}
			return a
		}
		want := func(what string, a response, status int) {
			t.Helper()
			if a.status != status {
				t.Errorf("%s: %d %.200s, want %d", what, a.status, a.body, status)
			}
		}
		for _, target := range []string{external, manage} {
			a := send(http.MethodGet, target, "")
			want("read it", a, 200)
			tag := a.header.Get("ETag")
			for method, status := range map[string]int{http.MethodGet: 304, http.MethodHead: 304} {
				b := send(method, target, "", "If-None-Match: "+tag)
				want("what has not changed", b, status)
				if b.header.Get("ETag") != tag {
					t.Errorf("the tag is %s and then %s", tag, b.header.Get("ETag"))
				}
			}
			head := send(http.MethodHead, target, "", `If-None-Match: "other"`)
			want("its headers", head, 200)
			if head.header.Get("ETag") != tag || head.header.Get("Content-Length") != strconv.Itoa(len(a.body)) {
				t.Errorf("HEAD has %v, but the body has %d bytes", head.header, len(a.body))
			}

			want("a change of another state", send(http.MethodPatch, target, `{"name":"Other"}`, `If-Match: "other"`), 412)
			changed := send(http.MethodPatch, target, `{"name":"`+target+`"}`, "If-Match: "+tag)
			want("a change of this state", changed, 200)
			if c := decodeCrowded(t, changed); c.Name != target || len(c.LinkedProspects) != 300 {
				t.Errorf("it was changed to %q with %d prospects", c.Name, len(c.LinkedProspects))
			}
			now := send(http.MethodGet, target, "")
			if !bytes.Equal(now.body, changed.body) || now.header.Get("ETag") != changed.header.Get("ETag") || now.header.Get("ETag") == tag {
				t.Errorf("the response to the change is not what is read then, by its tag %s and %s", changed.header.Get("ETag"), now.header.Get("ETag"))
			}
			want("the same again", send(http.MethodPatch, target, `{"name":"Other"}`, "If-Match: "+tag), 412)

			// Entries are allowed.
			want("an entry", s.send(t, post(s.north.key, `{"source":"a","payload":{},"accountId":"`+crowded+`"}`)), 201)
			want("a change after an entry", send(http.MethodPatch, target, `{"name":"After"}`, "If-Match: "+now.header.Get("ETag")), 200)
			want("a change without a condition that there is", send(http.MethodPatch, target, `{"name":"Any"}`, "If-Match: *"), 200)
		}
		want("a change without a condition", send(http.MethodPatch, external, `{"name":"Last"}`), 200)
		want("an operator's change without a condition", send(http.MethodPatch, manage, `{"name":"Last"}`), 428)

		tag := send(http.MethodGet, manage, "").header.Get("ETag")
		merged := send(http.MethodPost, "/manage/v0/accounts/"+s.vars["acme"]+"/merge", `{"into":"`+crowded+`"}`)
		want("a merge", merged, 200)
		m := decodeCrowded(t, merged)
		if len(m.Merged) != 1 || len(m.LinkedProspects) < 300 {
			t.Errorf("it has %d accounts and %d prospects", len(m.Merged), len(m.LinkedProspects))
		}
		split := `{"accountId":"` + s.vars["acme"] + `"}`
		want("a split of another state", send(http.MethodPost, manage+"/split", split, "If-Match: "+tag), 412)
		want("a split of this state", send(http.MethodPost, manage+"/split", split, "If-Match: "+merged.header.Get("ETag")), 200)
		want("an erasure of another state", send(http.MethodDelete, manage, "", "If-Match: "+tag), 412)
		tag = send(http.MethodGet, manage, "").header.Get("ETag")
		want("an erasure of this state", send(http.MethodDelete, manage, "", "If-Match: "+tag), 204)
		want("what is erased", send(http.MethodGet, external, ""), 404)
	})
}
