package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"atrium/bench/load"
)

func TestDeepRequestReadsTheLastPage(t *testing.T) {
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		if n == 7 {
			_, _ = fmt.Fprint(w, `{"items":[]}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"nextCursor":"%d"}`, n+1)
	}))
	defer list.Close()
	d := &dataset{shape: shape{tenants: 1, entries: 100}, tenants: make([]tenant, 1)}
	k := kind{Kind: load.Kind{Status: http.StatusOK}, list: "/things"}
	if err := k.deep(d, list.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if got := string(k.Request(0)); !strings.HasPrefix(got, "GET /things?cursor=7 ") {
		t.Errorf("request %q", got)
	}
	k.Status = http.StatusTeapot
	if err := k.deep(d, list.Listener.Addr().String()); err == nil {
		t.Error("no error for an unexpected status")
	}
}

// With many small tenants, lists are too short to have a distant end.
func TestManyTenantsSkipTheEndsOfLists(t *testing.T) {
	one := &dataset{shape: shape{tenants: 1, entries: 1000}, tenants: make([]tenant, 1)}
	many := &dataset{shape: shape{tenants: 3, entries: 1000}, tenants: make([]tenant, 3)}
	if got := len(one.kinds("")) - len(many.kinds("")); got != 3 {
		t.Errorf("%d fewer kinds, want 3", got)
	}
	for _, k := range many.kinds("") {
		if k.Request == nil {
			t.Errorf("%s has no request", k.Name)
		}
	}
}

func TestPayloadsAreObjectsOf300To1000Bytes(t *testing.T) {
	total := 0
	for _, p := range payloads {
		if len(p) < 300 || len(p) > 1000 || p[0] != '{' || p[len(p)-1] != '}' {
			t.Errorf("%d bytes: %s", len(p), p)
		}
		total += len(p)
	}
	if average := total / len(payloads); average < 400 || average > 550 {
		t.Errorf("%d bytes on average", average)
	}
}
