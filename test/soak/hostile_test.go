package soak

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auth"
)

// A hostile client sends invalid requests. They must be rejected without other effects.
type hostile struct {
	*client
	victim *tenant
	site   *site // of its tenant
}

func (h *hostile) step() {
	switch h.rng.IntN(10) {
	case 0, 1, 2:
		h.raw()
		return
	case 3, 4:
		h.hangUp()
		return
	}
	path := func(method, path string, want int) call { return h.external("hostile", method, path, nil, want) }
	post := func(body []byte, want int) call {
		return h.external("hostile", http.MethodPost, "/v0/account_logs", body, want)
	}
	deny := func(key string) call {
		q := path(http.MethodGet, "/v0/pages", http.StatusUnauthorized)
		q.key = key
		return q
	}
	_, unknown, _ := auth.NewKey()
	wrong, _ := auth.NewSecret(h.victim.keyID)
	foreign := string(h.s.ledger.accountOf(h.victim, h.rng.IntN))
	if foreign == "" {
		foreign = string(atrium.NewID[atrium.AccountID]())
	}
	calls := []call{
		deny(""), deny("atr_"), deny(unknown), deny(wrong), deny(strings.Repeat("x", 5000)),
		deny(h.of.key).with("x-api-key: " + unknown),
		post([]byte(`{"source":"x","payload":{}`), 400), post([]byte(`{"source":"x","payload":{"a":1,"a":2}}`), 400),
		post([]byte("{\"source\":\"\xff\",\"payload\":{}}"), 400), post([]byte(`{"source":"x","payload":[]}`), 400),
		post([]byte(`{"source":"x","payload":`+strings.Repeat(`{"a":`, 80)+`1`+strings.Repeat("}", 81)), 400),
		post(append([]byte(`{"source":"x","payload":{"f":"`), append(bytes.Repeat([]byte("y"), 1<<20), []byte(`"}}`)...)...), 413),
		post([]byte(`{"source":"x","payload":{},"accountId":"`+foreign+`"}`), 404),
		post([]byte("source=x"), 415).with("Content-Type: application/x-www-form-urlencoded"),
		path(http.MethodDelete, "/v0/pages", 405), path(http.MethodOptions, "/v0/pages", 405), path(http.MethodGet, "/v0/nothing", 404),
		path(http.MethodGet, "/v0/pages/%00", 404), path(http.MethodGet, "/v0/pages?limit=0", 400), path(http.MethodGet, "/v0/pages?cursor=AAAA", 400),
		path(http.MethodGet, "/v0/accounts/"+foreign, 404), path(http.MethodGet, "/manage/v0/accounts", 403),
		path(http.MethodGet, "/v0/pages?status=none", 400), path(http.MethodGet, "/v0/pages/"+h.site.pages[0]+"/audiences/x/versions", 404),
	}
	h.once(calls[h.rng.IntN(len(calls))])
}

// hangUp sends a request and closes the connection. Only the nodes' logs show the outcome.
func (h *hostile) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(h.rng.IntN(3_000))*time.Microsecond)
	defer cancel()
	page := h.site.pages[0]
	brand := map[string]any{"name": h.of.mark + " brand"}
	calls := []call{
		h.external("", http.MethodGet, "/v0/pages?limit=100", nil),
		h.external("", http.MethodGet, "/v0/pages/"+page, nil),
		h.external("", http.MethodGet, "/v0/pages/"+page+"/audiences/"+h.site.audience[page]+"/versions", nil),
		h.external("", http.MethodGet, "/v0/accounts/"+string(h.s.ledger.accountOf(h.of, h.rng.IntN)), nil),
		h.managing("", http.MethodGet, "/accounts?limit=100", nil),
		h.managing("", http.MethodGet, "/export", nil),
		h.managing("", http.MethodPatch, "/brands/"+h.site.brand, brand).with("If-Match: *"),
		h.managing("", http.MethodPost, "/brands", brand).with("Idempotency-Key: hung-up"),
		h.managing("", http.MethodPut, "/pages/"+page+"/schedule", map[string]any{"unpublishAt": "2126-01-01T00:00:00Z"}),
	}
	_, _ = h.send(ctx, calls[h.rng.IntN(len(calls))])
}

// raw sends what net/http cannot: incomplete, stalled and malformed requests.
func (h *hostile) raw() {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(h.s.base, "http://"), time.Second)
	if err != nil {
		return // a fault
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	head := fmt.Sprintf("POST /v0/account_logs HTTP/1.1\r\nHost: atrium\r\nx-api-key: %s\r\n", h.of.key)
	texts := []string{
		head + "Content-Length: 500\r\n\r\n{\"source\":\"cut\"", // incomplete
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"sou\r\nzz\r\n",
		head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
		head + "Content-Length: -1\r\n\r\n",
		head[:len(head)/2],
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"GET /v0/pages HTTP/9.9\r\n\r\n",
		"GET /v0/pages HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-Much: "+strings.Repeat("y", 900)+"\r\n", 30) + "\r\n",
	}
	text := []byte(texts[h.rng.IntN(len(texts))])
	if h.rng.IntN(4) == 0 { // byte by byte, for about a second
		for range 20 {
			n := min(len(text), 1+len(text)/40)
			if _, err := conn.Write(text[:n]); err != nil {
				return
			}
			text = text[n:]
			time.Sleep(50 * time.Millisecond)
		}
	}
	if _, err := conn.Write(text); err != nil {
		return
	}
	switch h.rng.IntN(3) {
	case 0:
		time.Sleep(time.Duration(h.rng.IntN(1000)) * time.Millisecond) // keep the connection open for a while
	case 1:
		before := h.s.phases.now()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_ = res.Body.Close()
			quiet := h.s.phases.quietSince(before)
			h.s.tally.answered("hostile, raw", res.StatusCode, 0, false)
			if res.StatusCode >= 500 && quiet && res.StatusCode != http.StatusHTTPVersionNotSupported {
				h.s.tally.fault(&h.s.tally.unexpected, "a broken request: %s", res.Status)
			}
			if res.StatusCode < 400 {
				h.s.tally.fault(&h.s.tally.wrong, "a broken request: %s", res.Status)
			}
		}
	}
}
