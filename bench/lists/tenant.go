package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store"
)

// The identifiers of what the lists name.
const (
	busy         = "account_00000000000000000000000000"
	plain        = "account_00000000000000000000000005"
	fullPage     = "page_00000000000000000000000000"
	fullAudience = "audience_00000000000000000000000000"
)

// chunk is how many records are stored in one transaction.
const chunk = 5000

// A tenant is all that a database holds, and the service on it.
type tenant struct {
	store *store.Store
	id    atrium.TenantID
	addr  string
	key   string
	stop  context.CancelFunc
	ended chan error
}

// fill makes a tenant whose every list grows with the number of its accounts, and
// serves it. One entry in four is the busy account's.
func fill(ctx context.Context, database string, accounts, perAccount int) (*tenant, error) {
	s, err := store.Open(ctx, database, store.Options{Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	t := &tenant{store: s}
	if _, err := s.Migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := errors.Join(t.make(ctx, accounts, perAccount), t.serve(ctx)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return t, nil
}

func (t *tenant) make(ctx context.Context, accounts, perAccount int) error {
	made, _, err := t.store.CreateTenant(ctx, atrium.CommandLine(atrium.OperatorChain), "Lists")
	if err != nil {
		return err
	}
	t.id = made.ID
	r := rand.New(rand.NewPCG(1, 2))
	begin := atrium.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	at := func(n, of int) atrium.Time { // spread over a year
		return begin + atrium.Time(int64(n)*int64(365*24*time.Hour/time.Millisecond)/int64(of)*1000)
	}
	for _, kind := range []struct {
		n      int
		record func(n int) store.Record
	}{
		{accounts, func(n int) store.Record {
			return &atrium.Account{ID: id[atrium.AccountID](n), Domain: fmt.Sprintf("company-%d.example", n), Name: fmt.Sprintf("Example %d", n), CreatedAt: at(n, accounts), UpdatedAt: at(n, accounts)}
		}},
		{accounts / 5, func(n int) store.Record {
			name, email := fmt.Sprintf("Person %d", n), fmt.Sprintf("person%d@company-%d.example", n, n)
			return &store.LinkedProspect{
				Prospect:   atrium.Prospect{ID: id[atrium.ProspectID](n), Name: &name, Email: &email, CreatedAt: at(n, accounts/5), UpdatedAt: at(n, accounts/5)},
				AccountIDs: []atrium.AccountID{id[atrium.AccountID](n)},
			}
		}},
		{accounts / 20, func(n int) store.Record {
			return &atrium.Page{
				ID: id[atrium.PageID](n), BrandID: "brand", Name: fmt.Sprintf("Page %d", n), Status: atrium.PageStatuses()[n%3],
				Actions: []byte("[]"), Scripts: []byte("[]"), FooterLinks: []byte("[]"), CreatedAt: at(n, accounts/20), UpdatedAt: at(n, accounts/20),
			}
		}},
		{accounts / 50, func(n int) store.Record {
			return &atrium.Audience{ID: id[atrium.AudienceID](n), PageID: fullPage, Name: fmt.Sprintf("Audience %d", n), CreatedAt: at(n, accounts/50), UpdatedAt: at(n, accounts/50)}
		}},
		{accounts / 50, func(n int) store.Record {
			return &store.AudienceVersion{Version: atrium.Version{ID: id[atrium.VersionID](n), AudienceID: fullAudience, Number: int64(n + 1), Content: []byte("{}"), CreatedAt: at(n, accounts/50)}}
		}},
		{accounts * perAccount, func(n int) store.Record {
			account := r.IntN(accounts)
			if r.IntN(4) == 0 {
				account = 0
			}
			source := []string{"crm", "product", "ads"}[n%3]
			if n%5000 == 0 {
				source = "rare"
			}
			return &atrium.Entry{
				ID: id[atrium.EntryID](n), AccountID: id[atrium.AccountID](account), CreatedAt: at(n, accounts*perAccount),
				Submission: atrium.Submission{Source: source, Type: "page.viewed", Payload: fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, strings.Repeat("x", 200))},
			}
		}},
	} {
		if err := t.load(ctx, kind.n, kind.record); err != nil {
			return err
		}
	}
	for n := range accounts / 100 { // each is a row of the audit log
		c := atrium.Change{TenantID: t.id, Actor: atrium.ActorCommandLine}
		if _, _, err := t.store.CreateBrand(ctx, c, fmt.Sprintf("Brand %d", n)); err != nil {
			return err
		}
	}
	return nil
}

// load stores n records in order.
func (t *tenant) load(ctx context.Context, n int, record func(n int) store.Record) error {
	items := make([]store.Import, 0, chunk)
	for i := range n {
		items = append(items, store.Import{Record: record(i), Created: true, Updated: true, Differs: func(store.Record) string { return "" }})
		if len(items) == chunk || i == n-1 {
			if _, err := t.store.Import(ctx, atrium.CommandLine(t.id), items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return nil
}

// serve starts the service, with a key that may read everything.
func (t *tenant) serve(ctx context.Context) error {
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, TenantID: t.id, Name: "lists", Scopes: atrium.Scopes{atrium.ScopeManage}}
	if _, _, err := t.store.CreateKey(ctx, atrium.CommandLine(t.id), k, hash); err != nil {
		return err
	}
	settings := config.Default()
	settings.Addr = "127.0.0.1:0"
	a, err := app.New(ctx, app.Config{Settings: settings, Store: t.store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, t.stop = context.WithCancel(ctx)
	t.addr, t.key, t.ended = a.Addr(), text, make(chan error, 1)
	go func() { t.ended <- a.Run(ctx) }()
	return nil
}

func (t *tenant) close() {
	t.stop()
	<-t.ended
	_ = t.store.Close()
}

// id returns the identifier of the nth thing of a kind.
func id[T atrium.Identifier](n int) T {
	var zero T
	return T(fmt.Sprintf("%s%026d", zero.Prefix(), n))
}
