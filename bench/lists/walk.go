package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A list is one list of the API. path may name what fill has made.
type list struct{ name, path string }

// lists are all of them, with the filters and orders that have an index of their own
// and one for which a page reads what it leaves out.
var lists = []list{
	{"accounts, newest", "/accounts"},
	{"accounts, by activity", "/accounts?order=activity"},
	{"accounts, by name", "/accounts?order=name"},
	{"accounts, name begins with", "/accounts?namePrefix=example%201"},
	{"accounts, search of a common word", "/accounts?q=example"},
	{"accounts, search of two words", "/accounts?q=example%20company"},
	{"accounts, active since", "/accounts?order=activity&activeSince=2026-01-01T00:00:00Z"},
	{"accounts, newest, of a rare name", "/accounts?order=newest&namePrefix=example%207777"},
	{"activity of a busy account", "/accounts/" + busy + "/activity"},
	{"activity of a busy account, rare source", "/accounts/" + busy + "/activity?source=rare"},
	{"activity of a plain account", "/accounts/" + plain + "/activity"},
	{"counts of a busy account", "/accounts/" + busy + "/activity/counts?since=2026-01-01T00:00:00Z&until=2026-12-31T00:00:00Z"},
	{"prospects", "/prospects"},
	{"prospects, search", "/prospects?q=person"},
	{"pages", "/pages"},
	{"pages, of a status", "/pages?status=draft"},
	{"audiences of a page", "/pages/" + fullPage + "/audiences"},
	{"versions of an audience", "/pages/" + fullPage + "/audiences/" + fullAudience + "/versions"},
	{"brands", "/brands"},
	{"moves", "/moves"},
	{"keys", "/keys"},
	{"audit log", "/audit"},
	{"audit log, of an action", "/audit?action=brand.create"},
}

// skipped is how many things lie between the two parts of a list whose pages are
// measured, where it has so many, and skipLimit how many a page has on the way.
const (
	skipped   = 200_000
	skipLimit = 100
)

// walk reads a list of both tenants and returns what each page took: half of the
// pages from the beginning on, and half from deep within. A page of one tenant is
// read after a page of the other, so that what disturbs one disturbs the other.
func walk(ctx context.Context, l list, small, large *tenant, pages int) (ofSmall, ofLarge []time.Duration, err error) {
	a, b := &walker{tenant: small, path: l.path}, &walker{tenant: large, path: l.path}
	for n := range pages {
		for _, w := range []*walker{a, b} {
			if n == 0 {
				err = w.warm(ctx)
			}
			if n == pages/2 {
				err = w.skip(ctx)
			}
			if err == nil {
				err = w.step(ctx)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return a.times, b.times, nil
}

// A walker walks one list over and over.
type walker struct {
	tenant *tenant
	path   string
	cursor string // of the next page; "" for the first
	times  []time.Duration
}

// warm reads the first page a few times: there are connections and caches to fill.
func (w *walker) warm(ctx context.Context) (err error) {
	for range 5 {
		if _, err = w.read(ctx, "", 0); err != nil {
			return err
		}
	}
	return nil
}

// skip goes on by as much as is skipped, or to a page near the end.
func (w *walker) skip(ctx context.Context) error {
	for n := 0; n < skipped; n += skipLimit {
		next, err := w.read(ctx, w.cursor, skipLimit)
		if err != nil || next == "" {
			return err
		}
		w.cursor = next
	}
	return nil
}

// step reads the next page, which is the first one behind the last, and notes what
// that took.
func (w *walker) step(ctx context.Context) (err error) {
	start := time.Now()
	w.cursor, err = w.read(ctx, w.cursor, 0)
	w.times = append(w.times, time.Since(start))
	return err
}

func (w *walker) read(ctx context.Context, cursor string, limit int) (next string, err error) {
	u, err := url.Parse("http://" + w.tenant.addr + "/manage/v0" + w.path)
	if err != nil {
		return "", err
	}
	q := u.Query()
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("X-Api-Key", w.tenant.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", u, answer.Status, body)
	}
	var page struct{ NextCursor string }
	err = json.Unmarshal(body, &page)
	return page.NextCursor, err
}
