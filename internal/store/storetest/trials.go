package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

var trials = []guarantee{
	{"a trial returns what an import would return, and stores nothing", trialSaysWhatImportWould},
	{"a trial works in parts that are admitted separately, and ends with its context", trialInParts},
	{"a trial sees the records of earlier chunks", trialSeesEarlierChunks},
}

// trialSaysWhatImportWould tries each list of chunks and then imports it, in tenants with the
// same data.
func trialSaysWhatImportWould(t *testing.T, e *env) {
	type world struct {
		account, other           *atrium.Account
		prospect                 *atrium.LinkedProspect
		page, otherPage          *atrium.Page
		audience, numbered, last *atrium.Audience
		version                  *atrium.AudienceVersion
		entry                    *atrium.Entry
	}
	at := func(v *atrium.AudienceVersion, change func(*atrium.AudienceVersion)) *atrium.AudienceVersion {
		change(v)
		return v
	}
	one := func(records ...store.Record) [][]store.Record { return [][]store.Record{records} }
	cases := map[string]func(e *env, w *world) [][]store.Record{
		"all of it again": func(_ *env, w *world) [][]store.Record {
			return one(w.account, w.other, w.prospect, w.page, w.otherPage, w.audience, w.version, w.entry)
		},
		"in another order": func(_ *env, w *world) [][]store.Record {
			return one(w.entry, w.version, w.audience, w.page, w.prospect, w.account)
		},
		"new ones that refer to stored ones": func(e *env, w *world) [][]store.Record {
			return one(e.newProspect(w.account, w.other), e.newAudience(w.page, true), e.newVersion(w.audience, 0), e.newEntry(w.other, "new"))
		},
		"a taken domain":    func(e *env, _ *world) [][]store.Record { return one(e.newAccount("acme.example", "")) },
		"a taken key":       func(e *env, w *world) [][]store.Record { return one(e.newEntry(w.other, w.entry.IdempotencyKey)) },
		"a taken number":    func(e *env, w *world) [][]store.Record { return one(e.newVersion(w.audience, 1)) },
		"a missing account": func(e *env, _ *world) [][]store.Record { return one(e.newEntry(e.newAccount("x.example", ""), "")) },
		"a missing page":    func(e *env, _ *world) [][]store.Record { return one(e.newAudience(e.newPage(atrium.PageDraft), false)) },
		"a missing audience": func(e *env, w *world) [][]store.Record {
			return one(w.account, e.newVersion(e.newAudience(w.page, false), 0))
		},
		"a missing linked account": func(e *env, w *world) [][]store.Record {
			return one(e.newProspect(w.account, e.newAccount("x.example", "")))
		},
		"the next number after those": func(e *env, w *world) [][]store.Record {
			return one(e.newVersion(w.numbered, 0), e.newVersion(w.numbered, 1))
		},
		"the next number taken": func(e *env, w *world) [][]store.Record {
			return one(e.newVersion(w.numbered, 0), e.newVersion(w.numbered, 8))
		},
		"the next number taken later": func(e *env, w *world) [][]store.Record {
			return [][]store.Record{{e.newVersion(w.numbered, 0)}, {e.newVersion(w.numbered, 8)}}
		},
		"no next number": func(e *env, w *world) [][]store.Record { return one(e.newVersion(w.last, 0)) },
		"a version of another page": func(e *env, w *world) [][]store.Record {
			return one(at(e.newVersion(w.audience, 0), func(v *atrium.AudienceVersion) { v.PageID = w.otherPage.ID }))
		},
		"a second published version": func(e *env, w *world) [][]store.Record {
			return one(published(e.newVersion(w.numbered, 9)))
		},
		"a first published version, then a second": func(e *env, w *world) [][]store.Record {
			return [][]store.Record{{published(e.newVersion(w.audience, 3))}, {published(e.newVersion(w.audience, 4))}}
		},
		"another account with an identifier": func(e *env, w *world) [][]store.Record {
			a := e.newAccount("y.example", "")
			a.ID = w.account.ID
			return one(e.newPage(atrium.PageDraft), a)
		},
		"another prospect with an identifier": func(e *env, w *world) [][]store.Record {
			p := e.newProspect(w.other)
			p.ID = w.prospect.ID
			return one(p)
		},
		"another version with an identifier": func(e *env, w *world) [][]store.Record {
			return one(at(e.newVersion(w.audience, 5), func(v *atrium.AudienceVersion) { v.ID = w.version.ID }))
		},
		"another entry with an identifier": func(e *env, w *world) [][]store.Record {
			entry := e.newEntry(w.account, "")
			entry.ID = w.entry.ID
			return one(entry)
		},
	}
	for name, records := range cases {
		t.Run(name, func(t *testing.T) {
			e := e.as(e.newTenant(t))
			w := &world{account: e.newAccount("acme.example", "Acme"), other: e.newAccount("other.example", ""), page: e.newPage(atrium.PageDraft), otherPage: e.newPage(atrium.PageDraft)}
			w.prospect, w.entry = e.newProspect(w.account), e.newEntry(w.account, "k")
			w.audience, w.numbered, w.last = e.newAudience(w.page, false), e.newAudience(w.page, false), e.newAudience(w.page, true)
			w.version = e.newVersion(w.audience, 1)
			e.put(t, w.account, w.other, w.prospect, w.page, w.otherPage, w.audience, w.numbered, w.last, w.version,
				e.newVersion(w.numbered, 3), published(e.newVersion(w.numbered, 7)), e.newVersion(w.last, atrium.MaxVersionNumber), w.entry)
			before := describeAll(e.records(t))
			chunks := records(e, w)

			trial, err := e.NewTrial(t.Context(), e.tenant, always)
			if err != nil {
				t.Fatalf("start a trial: %v", err)
			}
			defer trial.Close()
			var tried []string
			for _, chunk := range chunks {
				added, err := trial.Import(t.Context(), items(copied(chunk)...))
				tried = append(tried, fmt.Sprint(added, " ", err))
			}
			if after := describeAll(e.records(t)); !slices.Equal(after, before) {
				t.Errorf("the trial left %q, want %q", after, before)
			}
			var done []string
			for _, chunk := range chunks {
				added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(chunk...))
				done = append(done, fmt.Sprint(added, " ", err))
			}
			if !slices.Equal(tried, done) {
				t.Errorf("the trial returned %q, the import %q", tried, done)
			}
		})
	}
}

// copied returns copies of records: an import sets members that were not given.
func copied(records []store.Record) []store.Record {
	all := make([]store.Record, len(records))
	for i, r := range records {
		switch r := r.(type) {
		case *atrium.Account:
			all[i] = pointer(*r)
		case *atrium.LinkedProspect:
			all[i] = pointer(*r)
		case *atrium.Merge:
			all[i] = pointer(*r)
		case *atrium.Page:
			all[i] = pointer(*r)
		case *atrium.Audience:
			all[i] = pointer(*r)
		case *atrium.AudienceVersion:
			all[i] = pointer(*r)
		case *atrium.Tombstone:
			all[i] = pointer(*r)
		case *atrium.Entry:
			all[i] = pointer(*r)
		}
	}
	return all
}

func trialSeesEarlierChunks(t *testing.T, e *env) {
	trial, err := e.NewTrial(t.Context(), e.tenant, always)
	if err != nil {
		t.Fatalf("start a trial: %v", err)
	}
	defer trial.Close()
	records := e.oneOfEach()
	for i, r := range records {
		if added, err := trial.Import(t.Context(), items(r)); err != nil || added.Added != 1 {
			t.Errorf("chunk %d: %d, %v", i, added, err)
		}
	}
	if added, err := trial.Import(t.Context(), items(records...)); err != nil || added.Added != 0 {
		t.Errorf("all of them again: %d, %v", added, err)
	}
	_, err = trial.Import(t.Context(), items(e.newAccount("acme.example", "")))
	wantRefused(t, err, 0, "domain")
	e.wantRecords(t)
}

// always admits all work.
func always(context.Context) (release func(), err error) { return func() {}, nil }

func trialInParts(t *testing.T, e *env) {
	const n = 1200
	var chunk []store.Record
	for i := range n {
		chunk = append(chunk, e.newAccount(fmt.Sprintf("a%d.example", i), ""))
	}
	e.put(t, chunk...)
	var prospects []store.Record
	for part := range slices.Chunk(of[*atrium.Account](chunk), 600) {
		prospects = append(prospects, e.newProspect(part...))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	parts, last, held := 0, -1, false
	acquire := func(ctx context.Context) (func(), error) {
		if parts++; parts == last {
			cancel()
		}
		held = true
		return func() { held = false }, ctx.Err()
	}
	watched := *e
	watched.Store = store.New(e.db, func() time.Time {
		if !held {
			t.Error("a trial worked without being admitted")
		}
		return e.clock.now()
	})
	trial, err := watched.NewTrial(ctx, e.tenant, acquire)
	if err != nil {
		t.Fatalf("start a trial: %v", err)
	}
	defer trial.Close()
	if added, err := trial.Import(ctx, items(prospects...)); err != nil || added.Added != 2 {
		t.Errorf("tried: %d, %v", added, err)
	}
	if parts < n/500+3 {
		t.Errorf("%d accounts were copied in %d parts", n, parts)
	}
	var many []store.Record
	p := e.newProspect(of[*atrium.Account](chunk)[:1000]...)
	e.put(t, p)
	for range 12 {
		other := *p
		other.ID = atrium.NewID[atrium.ProspectID]()
		e.put(t, &other)
		many = append(many, &other)
	}
	if _, err := trial.Import(ctx, items(many...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("a trial of what has 12,000 links: %v", err)
	}
	last = parts + 3
	if _, err := trial.Import(ctx, items(prospects...)); err == nil || parts != last {
		t.Errorf("the context ended in part 3, the trial in part %d with %v", parts-last+3, err)
	}
}
