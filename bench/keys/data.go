package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"atrium"
	"atrium/bench/workload"
	"atrium/internal/auth"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// entriesPerAccount is the mean number of entries of an account.
const entriesPerAccount = 10

// restored is the number of entries up to which a database is restored before each round. Larger ones
// keep what is added.
const restored = 1_000_000

// A dataset is a database with entries of one tenant, whose keys are stored in the form of each layout.
type dataset struct {
	path   string // without the suffixes of the pristine and the working copy
	size   int    // entries at the beginning
	fresh  int    // of them, entries whose keys no job has processed
	body   []byte // payload of each entry
	tenant atrium.TenantID
	key    string // API key
	next   int    // number of the next entry
}

// newDataset creates and fills a database.
func newDataset(ctx context.Context, path string, size int, o options) (*dataset, error) {
	d := &dataset{path: path, size: size, fresh: max(min(o.recent, size/10), 1), body: []byte(workload.Payload(o.payload)), next: size}
	db, err := store.Open(ctx, "sqlite:"+d.pristine(), store.Options{})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.make(ctx, db), db.Close()); err != nil {
		return nil, err
	}
	return d, d.fill(ctx)
}

func (d *dataset) accounts() int { return max(d.size/entriesPerAccount, 1) }

// make creates the schema, a tenant with an API key, and its accounts.
func (d *dataset) make(ctx context.Context, db *store.Store) error {
	if _, err := db.Migrate(ctx); err != nil {
		return err
	}
	t, _, err := db.CreateTenant(ctx, atrium.CommandLine(atrium.OperatorChain), "Bench")
	if err != nil {
		return err
	}
	id, text, hash := auth.NewKey()
	d.tenant, d.key = t.ID, text
	if _, _, err := db.CreateKey(ctx, atrium.CommandLine(t.ID), atrium.APIKey{ID: id, TenantID: t.ID, Name: "bench", Scopes: atrium.ExternalScopes()}, hash); err != nil {
		return err
	}
	const chunk = 5000
	for from := 0; from < d.accounts(); from += chunk {
		var items []store.Import
		for n := from; n < min(from+chunk, d.accounts()); n++ {
			at := atrium.At(time.Now())
			a := &atrium.Account{ID: workload.Numbered[atrium.AccountID](n), Domain: workload.Domain(n), CreatedAt: at, UpdatedAt: at}
			items = append(items, store.Import{Record: a, Created: true, Updated: true, Differs: func(store.Record) string { return "" }})
		}
		if _, err := db.Import(ctx, atrium.CommandLine(t.ID), items); err != nil {
			return err
		}
	}
	return nil
}

// An entry has the columns of an entry that differ from those of others.
type entry struct {
	id, account, fingerprint, request []byte
	domain, key                       string
	at                                int64
}

// entry returns the nth entry, of a random account, with a random key of 32 bytes.
func (d *dataset) entry(n int) *entry {
	account := int(workload.Scatter(uint64(n)) % uint64(d.accounts()))
	key := fmt.Sprintf("%016x%016x", workload.Scatter(uint64(2*n)), workload.Scatter(uint64(2*n+1)))
	sum := sha256.Sum256([]byte("request " + key))
	return &entry{
		id: workload.PackedID(workload.Numbered[atrium.EntryID](n)), account: workload.PackedID(workload.Numbered[atrium.AccountID](account)), domain: workload.Domain(account),
		key: key, fingerprint: append([]byte{1}, sum[:]...), request: sum[:kernel.IDBytes], at: 1_700_000_000_000_000 + int64(n)*1000,
	}
}

// entries returns the next n entries.
func (d *dataset) entries(n int) []*entry {
	all := make([]*entry, n)
	for i := range all {
		all[i] = d.entry(d.next)
		d.next++
	}
	return all
}

const insertEntry = `INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, claimed_domain, idempotency_key,
		key_match, key_hash, fingerprint, payload, rule, submitted_by, request_id)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

// row returns the arguments of insertEntry. match and hash may be nil.
func (d *dataset) row(e *entry, match, hash any) engine.Args {
	return engine.Args{
		workload.PackedID(d.tenant), e.id, e.account, e.at, "crm", "page.viewed", e.domain, e.key,
		match, hash, e.fingerprint, d.body, int64(1), workload.PackedID(d.tenant), e.request,
	}
}

// hash64 returns the first 64 bits of the hash of a key.
func hash64(key string) int64 { return int64(binary.BigEndian.Uint64(kernel.Hash16(key))) }

func (d *dataset) pristine() string { return d.path + ".db" }

// file returns the database to work on.
func (d *dataset) file() string {
	if d.size > restored {
		return d.pristine()
	}
	return d.path + "-work.db"
}

// restore undoes what was appended, unless the database is large.
func (d *dataset) restore() (err error) {
	if d.size > restored {
		return nil
	}
	d.next = d.size
	in, err := os.Open(d.pristine())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(d.file())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// remove deletes the files.
func (d *dataset) remove() (err error) {
	for _, path := range []string{d.pristine(), d.file()} {
		for suffix := range strings.SplitSeq(",-wal,-shm", ",") {
			err = errors.Join(err, os.RemoveAll(path+suffix))
		}
	}
	return err
}
