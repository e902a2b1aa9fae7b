package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func (o *output) requests(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(o.String()) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if members["msg"] == "request" {
			all = append(all, members)
		}
	}
	return all
}

func TestEveryRequestHasOneLogLine(t *testing.T) {
	s := start(t)
	before := len(s.log.requests(t)) // from /readyz
	account := s.post(t, `{"source":"crm","domain":"acme.example","payload":{}}`)
	s.get(t, "/v0/accounts/"+account, s.key)
	s.send(t, http.MethodHead, "/v0/accounts/"+account, s.key, "")
	s.get(t, "/v0/pages", "")
	last := s.get(t, "/nowhere", s.key)
	lines := s.log.requests(t)[before:]
	var got []string
	for _, line := range lines {
		got = append(got, fmt.Sprint(line["method"], " ", line["route"], " ", line["status"], " ", line["keyId"] != "" && line["tenantId"] != ""))
		want := []string{"bytes", "client", "duration", "keyId", "level", "method", "msg", "requestId", "route", "status", "tenantId", "time"}
		if line["method"] == "POST" {
			want = append([]string{"accountId", "accountLogId"}, want...)
		}
		if names := slices.Sorted(maps.Keys(line)); !slices.Equal(names, want) {
			t.Errorf("the line has %v", names)
		}
		if line["client"] != "127.0.0.1" {
			t.Errorf("client address: %v", line["client"])
		}
	}
	want := []string{
		"POST /v0/account_logs 201 true", "GET /v0/accounts/{account_id} 200 true", "HEAD /v0/accounts/{account_id} 200 true",
		"GET /v0/pages 401 false", "GET  404 false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	if first := lines[0]; first["accountId"] != account || !strings.HasPrefix(fmt.Sprint(first["accountLogId"]), "prospectlog_") {
		t.Errorf("the line of the entry of %s is %v", account, first)
	}
	if line := lines[len(lines)-1]; line["requestId"] != last.header.Get("X-Request-Id") || line["bytes"] != float64(len(last.body)) {
		t.Errorf("the last line is %v, the response has %v and %d bytes", line, last.header, len(last.body))
	}
}

// Of a request, the log has only the request ID and the method, and the metrics have the
// method if HTTP defines it, the tenant and the source.
func TestClientInputIsNotLoggedOrMeasured(t *testing.T) {
	s := start(t)
	const canary = "c4n4ry"
	_, secret, _ := strings.Cut(strings.TrimPrefix(s.key, "atr_"), "_")
	const source = "s0urce"
	account := s.post(t, `{"source":"`+source+`","type":"`+canary+`","domain":"`+canary+`.example","name":"`+canary+`",`+
		`"payload":{"`+canary+`":"`+canary+`"},"idempotencyKey":"`+canary+`"}`)
	everywhere := []string{
		"User-Agent: " + canary, "Referer: http://" + canary + "/", "Cookie: a=" + canary, "Authorization: Bearer " + canary,
		"Idempotency-Key: " + canary + "2", "If-Match: \"" + canary + "\"", "If-None-Match: \"" + canary + "\"",
		"X-Forwarded-For: " + canary, "X-" + canary + ": 1", "X-Request-Id: " + canary + " a", // replaced, because it contains a space
	}
	all := func() {
		for _, key := range []string{s.key, s.pages, s.key[:len(s.key)-1] + "x", canary, ""} {
			for _, target := range []string{
				"/v0/accounts/" + account, "/v0/accounts/" + canary, "/v0/pages", "/v0/pages?cursor=" + canary + "&limit=" + canary + "&" + canary + "=1",
				"/v0/pages/" + canary + "/audiences/" + canary + "/versions?include=" + canary, "/" + canary, "//" + canary, "/docs?" + canary,
			} {
				for _, method := range []string{http.MethodGet, http.MethodHead, canary} {
					s.send(t, method, target, key, "", everywhere...)
				}
			}
			for _, body := range []string{
				canary, `{"` + canary + `":`, `{"source":1,"payload":"` + canary + `","domain":"` + canary + `\u0000"}`,
				`{"source":"a","payload":{},"idempotencyKey":"` + canary + `"}`, `{"source":"a","payload":{"a":"` + canary + `"}}`,
			} {
				s.send(t, http.MethodPost, "/v0/account_logs", key, body, everywhere...)
				s.send(t, http.MethodPatch, "/v0/accounts/"+account, key, `{"name":"`+canary+`"}`, everywhere...)
				s.send(t, http.MethodPost, "/v0/account_logs", key, body, "Content-Type: text/"+canary)
			}
		}
		garble(t, s.addr, canary)
	}
	all()
	if err := s.store.Close(); err != nil { // later requests fail with causes that are logged
		t.Fatal(err)
	}
	all()
	log, metrics := s.log.String(), s.scrape(t)
	if !strings.Contains(log, `"msg":"request failed"`) {
		t.Error("no request has failed")
	}
	for _, private := range []string{canary, s.key, s.pages, secret, "example"} {
		if i := strings.Index(strings.ToLower(log), strings.ToLower(private)); i >= 0 {
			t.Errorf("the log has what was sent: %s", log[max(0, i-300):min(len(log), i+100)])
		}
		if strings.Contains(strings.ToLower(metrics), strings.ToLower(private)) {
			t.Error("the metrics have what was sent")
		}
	}
	if strings.Contains(metrics, "account_0") || strings.Contains(metrics, "key_0") || strings.Contains(log, source) {
		t.Error("the metrics have identifiers, or the log has a source")
	}
}

// garble sends malformed HTTP.
func garble(t *testing.T, addr, text string) {
	t.Helper()
	for _, sent := range []string{
		text + "\r\n\r\n", "GET /" + text + "% HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n" + text + "\r\n\r\n",
		"GET / HTTP/9.9\r\nHost: " + text + "\r\n\r\n", "\x16\x03\x01" + text + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
	}
}
