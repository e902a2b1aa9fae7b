package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"atrium/bench/load"
)

// A receiver is the endpoint of webhooks. It returns as much as is stored of a response.
type receiver struct {
	net.Listener
}

func newReceiver() (r receiver, err error) {
	if r.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return r, err
	}
	go func() {
		for {
			c, err := r.Accept()
			if err != nil {
				return
			}
			go respond(c)
		}
	}()
	return r, nil
}

var accepted = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4096\r\n\r\n" + strings.Repeat("x", 4096))

// respond accepts each request of a connection. It costs as little as possible, because it runs on the machine that is measured.
func respond(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReaderSize(c, 32<<10)
	for {
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				break
			}
			if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("content-length")) {
				length, _ = strconv.Atoi(string(value))
			}
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(accepted); err != nil {
			return
		}
	}
}

// manages sends a request of the management API, and decodes its response.
func (t *tenant) manages(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+t.addr+"/manage/v0"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(t.manage, ": ")
	request.Header.Set(name, value)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("If-Match", "*")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode > 299 {
		return fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, got)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(got, into)
}

// webhooks of a tenant, the maximum.
const webhooks = 100

// withWebhooks returns a function that gives the tenant webhooks with a filter, "" for none, and one that deletes them.
func (t *tenant) withWebhooks(to receiver, n int, filter string) (begin, end func(context.Context) error) {
	var all []string
	begin = func(ctx context.Context) error {
		for range n {
			body := map[string]any{"url": "http://" + to.Addr().String() + "/hook"}
			if filter != "" {
				body["filter"] = filter
			}
			var made struct{ WebhookID string }
			if err := t.manages(ctx, http.MethodPost, "/webhooks", body, &made); err != nil {
				return err
			}
			all = append(all, made.WebhookID)
		}
		return nil
	}
	end = func(ctx context.Context) error {
		for _, id := range all {
			if err := t.manages(ctx, http.MethodDelete, "/webhooks/"+id, nil, nil); err != nil {
				return err
			}
		}
		all = nil
		return t.switchEvents(false)(ctx)
	}
	return begin, end
}

// switchEvents returns a function that switches the events of the tenant on or off.
func (t *tenant) switchEvents(on bool) func(context.Context) error {
	return func(ctx context.Context) error {
		return t.manages(ctx, http.MethodPatch, "/event_settings", map[string]any{"enabled": on}, nil)
	}
}

// costly are filters that cost as much as they may.
var costly = []string{
	`data.payload.text.matches("(x|xx|xxx){20}y$")`,
	`data.payload.n.all(a, data.payload.n.all(b, a == b))`,
}

// eventCases are those of events and webhooks.
func (t *tenant) eventCases(to receiver) []comparison {
	small := []byte(`{"source":"noisy","domain":"noisy.example","idempotencyKey":"{{n}}","payload":{"n":1}}`)
	payload := fmt.Appendf(nil, `{"text":%q,"n":[%s1]}`, strings.Repeat("x", 9000), strings.Repeat("1,", 4000))
	large := fmt.Appendf(nil, `{"source":"noisy","domain":"noisy.example","idempotencyKey":"{{n}}","payload":%s}`, payload)
	claim := fmt.Appendf(nil, `{"source":"noisy","domain":"{{n}}%s","idempotencyKey":"{{n}}","payload":{"n":1}}`, strings.Repeat("x", megabyte-1000))
	post := func(body []byte) load.Kind {
		return t.send(http.MethodPost, "/v0/account_logs", http.StatusCreated, body, t.key)
	}
	same := func(name string, kind load.Kind, n int, filter string) comparison {
		c := comparison{name: name, cheap: kind, expensive: kind}
		c.begin, c.end = t.withWebhooks(to, n, filter)
		return c
	}
	filter := func(text string) load.Kind {
		body := fmt.Appendf(nil, `{"url":"ftp://x.example/{{n}}","filter":%q}`, text)
		return t.send(http.MethodPost, "/manage/v0/webhooks", http.StatusBadRequest, body, t.manage)
	}
	source := strings.Repeat("type.matches('((x?){10}|y){5}') || ", 100) + "true"
	all := []comparison{
		same("webhooks", post(small), webhooks, ""),
		same("webhooks-large", post(large), webhooks, ""),
		same("filters", post(large), webhooks, costly[0]+" && type == 'none'"),
		same("filters-loop", post(large), webhooks, "!("+costly[1]+") && type == 'none'"),
		same("long-claims", post(claim), webhooks, ""),
		{name: "compile", cheap: filter("true" + strings.Repeat(" ", len(source)-4)), expensive: filter(source)},
		{
			name: "feed", cheap: t.get("/manage/v0/event_settings"), expensive: t.get("/manage/v0/events?limit=100"),
			begin: t.switchEvents(true), end: t.switchEvents(false),
		},
		{name: "feed-types", cheap: t.get("/manage/v0/event_settings"), expensive: t.get("/manage/v0/events?types=webhook.disabled&waitSeconds=1")},
		{name: "feed-wait", cheap: t.get("/manage/v0/event_settings"), expensive: t.get("/manage/v0/events?since=2100-01-01T00:00:00Z&waitSeconds=1")},
	}
	for i := range all {
		all[i].bare = true
	}
	return all
}
