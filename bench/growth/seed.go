package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// chunk is the maximum number of records per transaction.
const chunk = 5000

// A tenant is a tenant of the database, with an API key.
type tenant struct {
	ID  atrium.TenantID `json:"id"`
	Key string          `json:"key"`
}

// seed fills a database with the records that the service would have stored. It uses the
// service's import, except for the entries of a file, which are most of the data.
func seed(ctx context.Context, url string, s shape) (tenants []tenant, err error) {
	err = with(ctx, url, func(db *store.Store) error {
		if _, err := db.Migrate(ctx); err != nil {
			return err
		}
		for n := range s.tenants {
			t, err := newTenant(ctx, db, n)
			if err != nil {
				return err
			}
			tenants = append(tenants, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	start := time.Now()
	path, isFile := strings.CutPrefix(url, "sqlite:")
	bulk := newBulk(path, s, tenants)
	for round := range s.rounds() {
		if err := with(ctx, url, func(db *store.Store) error {
			for n, t := range tenants {
				if err := put(ctx, db, t.ID, s.records(round)); err != nil {
					return err
				}
				if isFile {
					continue
				}
				if err := put(ctx, db, t.ID, s.entryRecords(n, round)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		if isFile {
			if err := bulk.entries(ctx, round); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(os.Stderr, "%d of %d entries after %v\n", s.tenants*s.part(s.entries, round).to, s.total(), time.Since(start).Round(time.Second))
	}
	if isFile {
		err = bulk.activity()
	}
	return tenants, err
}

// with opens the store for the duration of f.
func with(ctx context.Context, url string, f func(*store.Store) error) error {
	db, err := store.Open(ctx, url, store.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

func newTenant(ctx context.Context, db *store.Store, n int) (tenant, error) {
	t, _, err := db.CreateTenant(ctx, atrium.CommandLine(atrium.OperatorChain), fmt.Sprintf("Tenant %d", n))
	if err != nil {
		return tenant{}, err
	}
	id, text, hash := auth.NewKey()
	key := atrium.APIKey{ID: id, TenantID: t.ID, Name: "growth", Scopes: append(atrium.ExternalScopes(), atrium.ScopeManageRead)}
	_, _, err = db.CreateKey(ctx, atrium.CommandLine(t.ID), key, hash)
	return tenant{t.ID, text}, err
}

// put imports records of a tenant.
func put(ctx context.Context, db *store.Store, id atrium.TenantID, records iter.Seq[store.Record]) error {
	items := make([]store.Import, 0, chunk)
	flush := func() error {
		_, err := db.Import(ctx, atrium.CommandLine(id), items)
		items = items[:0]
		return err
	}
	for record := range records {
		item := store.Import{Record: record, Created: true, Updated: true, Differs: func(store.Record) string { return "" }}
		if e, ok := record.(*atrium.Entry); ok {
			var err error
			if item.Fingerprint, err = canonical.Fingerprint(e.Submission); err != nil {
				return err
			}
		}
		items = append(items, item)
		if len(items) == chunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// A dataset is a seeded database, with the identifiers that requests need.
type dataset struct {
	shape
	path    string
	tenants []tenant
}

// files returns the dataset of a shape in a directory. It creates a missing one.
func files(ctx context.Context, dir string, s shape) (*dataset, error) {
	name := fmt.Sprintf("%d-of-%d", s.total(), s.tenants)
	if s.each > 0 {
		name += fmt.Sprintf("-each-%d", s.each)
	}
	d := &dataset{shape: s, path: filepath.Join(dir, name+".db")}
	list := filepath.Join(dir, name+".json") // written last
	text, err := os.ReadFile(list)
	if err == nil {
		return d, json.Unmarshal(text, &d.tenants)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := remove(d.path); err != nil {
		return nil, err
	}
	start := time.Now()
	if d.tenants, err = seed(ctx, "sqlite:"+d.path, s); err != nil {
		return nil, fmt.Errorf("seed %s: %w", s, err)
	}
	if err := forget(d.path); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s: seeded in %v\n", s, time.Since(start).Round(time.Second))
	if text, err = json.Marshal(d.tenants); err != nil {
		return nil, err
	}
	return d, os.WriteFile(list, text, 0o600)
}

// remove deletes a database file and its WAL, if they exist.
func remove(path string) (err error) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err = errors.Join(err, os.RemoveAll(path+suffix))
	}
	return err
}

// forget evicts a file from the page cache.
func forget(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
