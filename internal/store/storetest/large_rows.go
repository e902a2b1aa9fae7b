package storetest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// Changes of rows of up to 1 MiB. An engine may write the whole row again, whichever columns
// change.

var largeRows = []guarantee{
	{"a change is admitted as large before it reads or writes a large row", largeRowsAdmitted},
	{"a change is admitted as large before it reads many rows", manyRowsAdmitted},
	{"a new version deletes a bounded number of bytes of old versions", retiredBytesBounded},
}

// watched records what transactions admitted as small read and write.
type watched struct {
	admissions
	read   tally
	writes []string // statements that change or delete rows that can be large
}

// watching returns the env with a store that records in watched.
func (e *env) watching() (*env, *watched) {
	w := &watched{}
	other := *e
	other.Store = store.New(watchedDB{e.db, w}, e.clock.now)
	return &other, w
}

type watchedDB struct {
	engine.DB
	w *watched
}

func (db watchedDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.DB.Write(ctx, func(tx engine.Tx) error {
		if n := len(db.w.large); n == 0 || db.w.large[n-1] {
			return f(tx)
		}
		return f(watchedTx{countingTx{tx, &db.w.read}, db.w})
	})
}

type watchedTx struct {
	countingTx
	w *watched
}

var changesLargeRow = regexp.MustCompile(`^(UPDATE|DELETE FROM) (audiences|entries|long_domains|moves|pages|prospects|requests|versions)\b`)

func (tx watchedTx) note(sql string) {
	if changesLargeRow.MatchString(sql) {
		tx.w.writes = append(tx.w.writes, sql)
	}
}

func (tx watchedTx) Lock(sql string, args engine.Args, each func(engine.Row) error) error {
	return tx.countingTx.Lock(sql, args, tx.w.read.count(each))
}

func (tx watchedTx) Exec(sql string, args ...any) (int64, error) {
	tx.note(sql)
	return tx.countingTx.Exec(sql, args...)
}

func (tx watchedTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	tx.note(b.Server)
	if each == nil {
		return tx.Tx.Batch(b, rows, nil)
	}
	return tx.countingTx.Batch(b, rows, each)
}

func (tx watchedTx) PipelineExec(b *engine.Batch, rows []engine.Args) error {
	tx.note(b.Server)
	return tx.countingTx.PipelineExec(b, rows)
}

// wantLarge fails the test unless a change was admitted as large before it read or wrote much.
func (w *watched) wantLarge(t tb, what string) {
	t.Helper()
	w.want(t, what, true)
	if w.read.bytes > 16<<10 || len(w.writes) > 0 {
		t.Errorf("%s: before it is admitted as large, it reads %d bytes and runs %q", what, w.read.bytes, w.writes)
	}
	w.read, w.writes = tally{}, nil
}

// largeText is as long as a row can be.
var largeText = strings.Repeat("x", 1<<20)

// largePage returns a page of about 1 MiB.
func (e *env) largePage(t tb, c atrium.Change) atrium.ScheduledPage {
	t.Helper()
	draft := e.pageDraft(t)
	draft.Context = largeText[:atrium.MaxPageSize-draft.Size()]
	p, _, err := e.CreatePage(t.Context(), c, draft)
	if err != nil {
		t.Fatalf("create a large page: %v", err)
	}
	return p
}

func largeRowsAdmitted(t *testing.T, e *env) {
	type step struct {
		what string
		run  func(c atrium.Change) error
	}
	ctx := t.Context()
	stored := e
	e, w := e.watching()
	run := func(steps ...step) {
		t.Helper()
		for _, s := range steps {
			e.clock.step(time.Second)
			w.large, w.open, w.read, w.writes = nil, 0, tally{}, nil
			if err := s.run(w.of(e.change())); err != nil {
				t.Errorf("%s: %v", s.what, err)
			}
			w.wantLarge(t, s.what)
		}
	}

	key := stored.keyed("large", "page")
	page := stored.largePage(t, key).ID
	take := func(transition atrium.PageTransition) step {
		return step{"a page: " + string(transition), func(c atrium.Change) error {
			_, err := e.TakePage(ctx, c, page, transition, accept)
			return err
		}}
	}
	audience, draft := stored.createAudience(t, page, "all").ID, stored.pageDraft(t)
	run(
		step{"replay the creation of a page", func(c atrium.Change) error {
			c.IdempotencyKey, c.Fingerprint = key.IdempotencyKey, key.Fingerprint
			_, replayed, err := e.CreatePage(ctx, c, draft)
			if !replayed {
				t.Error("it was created again")
			}
			return err
		}},
		step{"update a page", func(c atrium.Change) error {
			_, err := e.UpdatePage(ctx, c, page, atrium.PageEdit{Name: pointer("new")}, accept)
			return err
		}},
		step{"schedule a page", func(c atrium.Change) error {
			_, err := e.SchedulePage(ctx, c, page, atrium.Schedule{PublishAt: pointer(e.clock.instant() + 1e6)}, accept)
			return err
		}},
		step{"unschedule a page", func(c atrium.Change) error { return e.UnschedulePage(ctx, c, page, accept) }},
		take(atrium.PagePublish), take(atrium.PageUnpublish), take(atrium.PageArchive), take(atrium.PageRestore),
		step{"create an audience of a page", func(c atrium.Change) error {
			_, _, err := e.CreateAudience(ctx, c, page, "other")
			return err
		}},
		step{"update an audience of a page", func(c atrium.Change) error {
			_, err := e.UpdateAudience(ctx, c, page, audience, pointer("new"), accept)
			return err
		}},
		step{"archive an audience of a page", func(c atrium.Change) error {
			_, err := e.ArchiveAudience(ctx, c, page, audience, true, accept)
			return err
		}},
		step{"delete a page", func(c atrium.Change) error { return e.DeletePage(ctx, c, page, accept) }},
		step{"undelete a page", func(c atrium.Change) error {
			_, err := e.UndeletePage(ctx, c, page, accept)
			return err
		}},
	)

	small := stored.newPage(atrium.PageDraft)
	named, versioned := stored.newAudience(small, false), stored.newAudience(small, false)
	named.Name = largeText
	stored.put(t, small, named, versioned)
	var version int64
	run(
		step{"create a version of an audience with a long name", func(c atrium.Change) error {
			v, _, err := e.CreateVersion(ctx, c, small.ID, named.ID, []byte(`{}`), "")
			version = v.Number
			return err
		}},
		step{"publish a version of an audience with a long name", func(c atrium.Change) error {
			_, err := e.PublishVersion(ctx, c, small.ID, named.ID, version, accept)
			return err
		}},
		step{"archive an audience with a long name", func(c atrium.Change) error {
			_, err := e.ArchiveAudience(ctx, c, small.ID, named.ID, true, accept)
			return err
		}},
		step{"restore an audience with a long name", func(c atrium.Change) error {
			_, err := e.ArchiveAudience(ctx, c, small.ID, named.ID, false, accept)
			return err
		}},
		step{"update an audience with a long name", func(c atrium.Change) error {
			_, err := e.UpdateAudience(ctx, c, small.ID, named.ID, pointer("new"), accept)
			return err
		}},
		step{"create a version", func(c atrium.Change) error {
			v, _, err := e.CreateVersion(ctx, c, small.ID, versioned.ID, []byte(`"`+largeText+`"`), "")
			version = v.Number
			return err
		}},
		step{"archive a version", func(c atrium.Change) error {
			_, err := e.ArchiveVersion(ctx, c, small.ID, versioned.ID, version, true, accept)
			return err
		}},
		step{"restore a version", func(c atrium.Change) error {
			_, err := e.ArchiveVersion(ctx, c, small.ID, versioned.ID, version, false, accept)
			return err
		}},
		step{"publish a version", func(c atrium.Change) error {
			_, err := e.PublishVersion(ctx, c, small.ID, versioned.ID, version, accept)
			return err
		}},
	)

	to := stored.record(t, byDomain("to.example")).AccountID
	from := stored.record(t, byDomain("from.example")).AccountID
	payloads := stored.record(t, atrium.Claim{AccountID: from, Name: "Acme"}, payload(`"`+largeText+`"`)).EntryID
	claimed := stored.record(t, atrium.Claim{AccountID: from, Domain: largeText}).EntryID
	var move atrium.MoveID
	moveEntry := func(what string, id atrium.EntryID) step {
		return step{what, func(c atrium.Change) error {
			m, _, err := e.MoveEntry(ctx, c, id, to, accept)
			move = m.ID
			return err
		}}
	}
	moveByRule := func(what string, rule atrium.MoveRule) step {
		return step{what, func(c atrium.Change) error {
			report, _, err := e.Move(ctx, c, atrium.MoveRequest{From: from, To: to, Limit: 10, Rule: rule})
			if err == nil {
				move = report.Move.ID
			}
			return err
		}}
	}
	undo := step{"undo a move", func(c atrium.Change) error {
		_, _, err := e.UndoMove(ctx, c, move, accept)
		return err
	}}
	run(
		moveEntry("move an entry with a large payload", payloads), undo,
		moveEntry("move an entry with a long domain", claimed), undo,
		moveByRule("move entries by name", atrium.MoveRule{ClaimedName: "acme", Given: []byte(`{}`)}), undo,
		moveByRule("move entries by a long domain", atrium.MoveRule{ClaimedDomain: largeText, Given: []byte(`"` + largeText + `"`)}), undo,
		moveByRule("move a small entry by a large rule", atrium.MoveRule{ClaimedDomain: "from.example", Given: []byte(`"` + largeText + `"`)}), undo,
	)

	long := stored.longDomains(t, 3, 1<<20)
	run(
		step{"create an account with a long domain", func(c atrium.Change) error {
			_, _, err := e.CreateAccount(ctx, c, largeText, "")
			return err
		}},
		step{"create an account with a long domain that exists", func(c atrium.Change) error {
			_, _, err := e.CreateAccount(ctx, c, largeText, "")
			wantCode(t, err, atrium.CodeConflict)
			return nil
		}},
		step{"rename an account with a long domain", func(c atrium.Change) error {
			_, err := e.RenameAccount(ctx, c, long[0], "name", accept)
			return err
		}},
		step{"update the name of an account with a long domain", func(c atrium.Change) error {
			_, err := e.UpdateAccount(ctx, c, long[0], atrium.AccountUpdate{Name: pointer("new")}, accept)
			return err
		}},
		step{"replace a long domain", func(c atrium.Change) error {
			_, err := e.UpdateAccount(ctx, c, long[0], atrium.AccountUpdate{Domain: "short.example"}, accept)
			return err
		}},
		step{"swap domains, one of which is long", func(c atrium.Change) error {
			d, err := stored.AccountDetail(ctx, e.tenant, long[1])
			if err == nil {
				_, err = e.UpdateAccount(ctx, c, long[1], atrium.AccountUpdate{Domain: d.Domain[:1<<19]}, accept)
			}
			return err
		}},
		step{"merge accounts with long domains", func(c atrium.Change) error {
			_, err := e.MergeAccounts(ctx, c, long[2], long[1], accept)
			return err
		}},
		step{"split accounts with long domains", func(c atrium.Change) error {
			_, err := e.SplitAccount(ctx, c, long[1], long[2], nil) // a check would run in a read transaction
			return err
		}},
	)

	prospect := stored.newProspect()
	text := strings.Repeat("€", atrium.MaxProspectText)
	prospect.Name, prospect.Slug, prospect.PhoneNumber = &text, &text, &text
	stored.put(t, prospect)
	run(
		step{"link a prospect", func(c atrium.Change) error {
			_, err := e.LinkProspect(ctx, c, to, prospect.ID, accept)
			return err
		}},
		step{"unlink a prospect", func(c atrium.Change) error { return e.UnlinkProspect(ctx, c, to, prospect.ID, accept) }},
		step{"update a prospect", func(c atrium.Change) error {
			_, err := e.UpdateProspect(ctx, c, prospect.ID, func(p *atrium.Prospect) { p.Email = pointer("new") }, accept)
			return err
		}},
		step{"delete a prospect", func(c atrium.Change) error {
			_, err := e.DeleteProspect(ctx, c, prospect.ID, accept)
			w.large = w.large[:min(2, len(w.large))] // the erasure may be completed in another transaction
			return err
		}},
	)
}

func manyRowsAdmitted(t *testing.T, e *env) {
	var prospects []store.Record
	linked := e.record(t, byDomain("linked.example")).AccountID
	for range 195 {
		p := e.newProspect()
		p.AccountIDs = []atrium.AccountID{linked}
		prospects = append(prospects, p)
	}
	e.put(t, prospects...)
	root := e.record(t, byDomain("root.example")).AccountID
	for i := range 99 {
		e.merge(t, e.record(t, byDomain(fmt.Sprintf("d%d.example", i))).AccountID, root)
	}
	few := e.record(t, byDomain("few.example")).AccountID
	watching, w := e.watching()
	for _, c := range []struct {
		account atrium.AccountID
		large   bool
	}{{linked, true}, {root, true}, {few, false}} {
		for what, change := range map[string]func(atrium.Change) error{
			"rename": func(change atrium.Change) error {
				_, err := watching.RenameAccount(t.Context(), change, c.account, "name", nil)
				return err
			},
			"rename with a check": func(change atrium.Change) error {
				_, err := watching.RenameAccount(t.Context(), change, c.account, "checked", accept)
				return err
			},
			"update": func(change atrium.Change) error {
				_, err := watching.UpdateAccount(t.Context(), change, c.account, atrium.AccountUpdate{Name: pointer("updated")}, accept)
				return err
			},
		} {
			w.read = tally{}
			if err := change(w.of(e.change())); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if w.read.rows > 150 {
				t.Errorf("%s: before it is admitted as large, it reads %d rows", what, w.read.rows)
			}
			if !c.large || c.account == linked { // without a check, merged accounts are not read
				w.want(t, what+" of "+string(c.account), c.large)
			}
			w.large = nil
		}
	}
}

func retiredBytesBounded(t *testing.T, e *env) {
	u := e.createAudience(t, e.createPage(t).ID, "Visitors")
	var all []store.Record
	for range 6 {
		v := e.newVersion(&u, 0)
		v.Content = []byte(`"` + largeText[2:] + `"`)
		all = append(all, v)
	}
	e.put(t, all...)
	for _, left := range []int64{3, 1} {
		watching, w := e.watching()
		watching.KeepVersions = 1
		if _, _, err := watching.CreateVersion(t.Context(), w.of(e.change()), u.PageID, u.ID, []byte(`{}`), ""); err != nil {
			t.Fatal(err)
		}
		if now, err := e.Audience(t.Context(), e.tenant, u.PageID, u.ID); err != nil || now.VersionsCount != left {
			t.Errorf("%d versions are left, want %d, %v", now.VersionsCount, left, err)
		}
		w.wantLarge(t, fmt.Sprintf("retire all but %d", left))
	}
}
