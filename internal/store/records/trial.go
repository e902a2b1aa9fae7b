package records

import (
	"context"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/erasures"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
	"atrium/internal/store/tombstones"
)

// A Trial imports records without storing them. It imports them into a scratch database, into
// which it first copies the stored records that they refer to or could conflict with. Each chunk
// is tried against the store's current state, without locks on the store. A Trial is not safe for
// concurrent use.
type Trial struct {
	store   *Store
	scratch *Store
	tenant  atrium.TenantID
	acquire func(context.Context) (release func(), err error)
}

// NewTrial returns a Trial for a tenant of a store, with a scratch store that has an empty
// schema. acquire waits until the Trial may use the CPU; the Trial releases it between parts of
// its work.
func NewTrial(store, scratch *Store, tenant atrium.TenantID, acquire func(context.Context) (release func(), err error)) *Trial {
	return &Trial{store: store, scratch: scratch, tenant: tenant, acquire: acquire}
}

// relatedAtOnce is how many related records are copied before the CPU is released.
const relatedAtOnce = 500

// Import returns what Store.Import would return for the chunk after the chunks that were tried
// before. It also returns ErrChunkTooLarge if the chunk has too many related records.
func (t *Trial) Import(ctx context.Context, chunk []Import) (imported Imported, err error) {
	var related related
	if err := t.part(ctx, func() error {
		return t.store.db.Read(ctx, func(tx engine.Tx) error {
			related, err = t.related(tx, chunk)
			return err
		})
	}); err != nil {
		return Imported{}, err
	}
	for part := range slices.Chunk(related.records, relatedAtOnce) {
		if err := t.part(ctx, func() error {
			_, err := t.scratch.importChunk(ctx, atrium.CommandLine(t.tenant), part, true)
			return err
		}); err != nil {
			return Imported{}, fmt.Errorf("the store was changed while lines were checked: %w", err)
		}
	}
	err = t.part(ctx, func() error {
		if len(related.numbers)+len(related.erased)+len(related.secrets) > 0 {
			if err := t.scratch.db.Write(ctx, related.write); err != nil {
				return err
			}
		}
		imported, err = t.scratch.Import(ctx, atrium.CommandLine(t.tenant), chunk)
		return err
	})
	return imported, err
}

// part runs f when the Trial may use the CPU.
func (t *Trial) part(ctx context.Context, f func() error) error {
	release, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// related is the stored data that a chunk may depend on.
type related struct {
	records []Import      // each after the records that it refers to
	numbers []engine.Args // rows of raiseNumbers: the highest number of each audience
	shown   []engine.Args // rows of publishVersions: the published version of each audience
	erased  []engine.Args // rows of erasures.InsertErasures
	secrets [][]byte      // of tombstones
	tenant  atrium.TenantID
}

// write stores everything except the records.
func (r *related) write(tx engine.Tx) error {
	if _, err := tx.Batch(raiseNumbers, r.numbers, nil); err != nil {
		return err
	}
	if _, err := tx.Batch(publishVersions, r.shown, nil); err != nil {
		return err
	}
	if err := tombstones.AddSecrets(tx, r.tenant, r.secrets); err != nil {
		return err
	}
	_, err := tx.Batch(erasures.InsertErasures, r.erased, nil)
	return err
}

// related returns the stored records that the chunk names, refers to or shares a unique member
// with, and the incomplete erasures of its accounts.
func (t *Trial) related(tx engine.Tx, chunk []Import) (found related, err error) {
	f := &relatedFinder{tx: tx, tenant: t.tenant, found: map[string]bool{}, single: len(chunk) == 1}
	var named []engine.Args // rows of findErasures
	for _, item := range chunk {
		f.add(item.Record)
		if a, ok := item.Record.(*atrium.Account); ok {
			named = append(named, engine.Args{kernel.IDArg(t.tenant), kernel.IDArg(a.ID)})
		}
		for _, domain := range []string{item.LegacyDomain, item.AccountDomain, item.LegacyAccountDomain} {
			if domain != "" {
				f.domains = append(f.domains, engine.Args{kernel.IDArg(t.tenant), kernel.Hash16(domain)})
			}
		}
	}
	// Records that refer to others are read first: they add lookups of the others.
	if len(f.tombstones)+len(f.entryKeys) > 0 {
		if found.secrets, err = tombstones.Secrets(tx, t.tenant); err != nil {
			return found, err
		}
		found.tenant = t.tenant
		f.addKeys(found.secrets)
	}
	allTombstones := f.read(scanned(t.tenant, tombstones.Scan), lookup{tombstones.ByID, f.tombstones}, lookup{tombstones.ByKey, f.tombstoneKeys})
	allEntries := f.read(scanned(t.tenant, entries.ScanEntry), lookup{entriesByID, f.entries}, lookup{entriesByKey, f.entryKeys})
	allVersions := f.read(scanned(t.tenant, pages.ScanVersion), lookup{versionsByID, f.versions}, lookup{versionsByNumber, f.numbers})
	allAudiences := f.read(func(r engine.Row) Record {
		u := pages.ScanAudience(r, t.tenant)
		found.numbers = append(found.numbers, engine.Args{kernel.IDArg(t.tenant), kernel.IDArg(u.ID), r.Int(8)})
		if u.PublishedNumber > 0 {
			found.shown = append(found.shown, engine.Args{kernel.IDArg(t.tenant), kernel.IDArg(u.ID), u.PublishedNumber})
		}
		return &u
	}, lookup{pages.AudiencesByID, f.audiences})
	allPages := f.read(func(r engine.Row) Record { return pageRecord(r, t.tenant) }, lookup{pagesByID, f.pages})
	allBrands := f.read(scanned(t.tenant, pages.ScanBrand), lookup{brandsByID, f.brands})
	allProspects := f.prospectsWithLinks()
	allAccounts, allMerges := f.accountsWithMerges()
	found.records = slices.Concat(allAccounts, allMerges, allProspects, allBrands, allPages, allAudiences, allVersions, allTombstones, allEntries)
	if f.err != nil {
		return found, f.err
	}
	_, err = tx.Batch(findErasures, named, func(r engine.Row) error {
		found.erased = append(found.erased, engine.Args{kernel.IDArg(t.tenant), r.Bytes(0), r.Int(1)})
		return nil
	})
	return found, err
}

// scanned returns a function that scans records.
func scanned[T any](tenant atrium.TenantID, scan func(engine.Row, atrium.TenantID) T) func(engine.Row) Record {
	return func(r engine.Row) Record {
		v := scan(r, tenant)
		return &v
	}
}

// A relatedFinder collects the arguments of the lookups of related records and runs them.
type relatedFinder struct {
	tx     engine.Tx
	tenant atrium.TenantID
	found  map[string]bool // read already, by identity
	err    error           // the first error
	single bool            // the chunk has one record
	rows   int             // how many rows were read
	bytes  int             // how many bytes they have

	accounts, domains, prospects, brands, pages, audiences, versions, numbers, entries, entryKeys, tombstones, tombstoneKeys []engine.Args
}

// addKeys adds lookups of the tombstones that have the keys of entries, under the secrets of the
// tenant.
func (f *relatedFinder) addKeys(secrets [][]byte) {
	for _, secret := range secrets {
		for _, row := range f.entryKeys {
			f.tombstoneKeys = append(f.tombstoneKeys, engine.Args{row[0], tombstones.KeyHMAC(secret, row[1].([]byte))})
		}
	}
}

// unknownFingerprint is the fingerprint of stored entries in a scratch database, where no request
// is compared with it.
var unknownFingerprint = []byte{0}

type lookup struct {
	batch *engine.Batch
	rows  []engine.Args
}

// add adds lookups of a record with the same identifier or another unique member, and of the
// records that it refers to.
func (f *relatedFinder) add(record Record) {
	args := func(rest ...any) engine.Args { return append(engine.Args{kernel.IDArg(f.tenant)}, rest...) }
	switch r := record.(type) {
	case *atrium.Account:
		f.accounts, f.domains = append(f.accounts, args(kernel.IDArg(r.ID))), append(f.domains, args(kernel.Hash16(r.Domain)))
	case *atrium.LinkedProspect:
		f.prospects = append(f.prospects, args(kernel.IDArg(r.ID)))
		for _, id := range r.AccountIDs {
			f.accounts = append(f.accounts, args(kernel.IDArg(id)))
		}
	case *atrium.Merge:
		for _, id := range []atrium.AccountID{r.AccountID, r.Into} {
			f.accounts = append(f.accounts, args(kernel.IDArg(id)))
		}
	case *atrium.Brand:
		f.brands = append(f.brands, args(kernel.IDArg(r.ID)))
	case *atrium.Page:
		f.pages = append(f.pages, args(kernel.IDArg(r.ID)))
	case *atrium.ScheduledPage:
		f.pages = append(f.pages, args(kernel.IDArg(r.ID)))
	case *atrium.Audience:
		f.audiences, f.pages = append(f.audiences, args(kernel.IDArg(r.ID))), append(f.pages, args(kernel.IDArg(r.PageID)))
	case *atrium.AudienceVersion:
		f.versions, f.audiences = append(f.versions, args(kernel.IDArg(r.ID))), append(f.audiences, args(kernel.IDArg(r.AudienceID)))
		f.numbers = append(f.numbers, args(kernel.IDArg(r.AudienceID), r.Number))
	case *atrium.Tombstone:
		id := args(kernel.IDArg(r.EntryID))
		f.tombstones, f.entries = append(f.tombstones, id), append(f.entries, id)
		if r.KeyHMAC != nil {
			f.tombstoneKeys = append(f.tombstoneKeys, args(r.KeyHMAC))
		}
	case *atrium.Entry:
		id := args(kernel.IDArg(r.ID))
		f.entries, f.tombstones, f.accounts = append(f.entries, id), append(f.tombstones, id), append(f.accounts, args(kernel.IDArg(r.AccountID)))
		if r.IdempotencyKey != "" {
			f.entryKeys = append(f.entryKeys, args(kernel.KeyMatch(r.IdempotencyKey)))
		}
	}
}

// read returns the records that the lookups find, each once, and adds lookups of the records that
// they refer to.
func (f *relatedFinder) read(scan func(engine.Row) Record, lookups ...lookup) (records []Import) {
	for _, l := range lookups {
		if f.err != nil {
			return nil
		}
		_, f.err = f.tx.Batch(l.batch, l.rows, func(row engine.Row) error {
			w := kernel.SizedRow{Row: row}
			r := scan(&w)
			f.bytes += w.Size
			if err := f.count(); err != nil {
				return err
			}
			if !f.found[identity(r)] {
				f.found[identity(r)] = true
				records = append(records, Import{
					Record: r, Created: true, Updated: true, Fingerprint: unknownFingerprint, Differs: func(Record) string { return "" },
				})
			}
			return nil
		})
	}
	for _, item := range records {
		f.add(item.Record)
	}
	return records
}

// maxRelated is how many related rows a chunk of several records may have.
const maxRelated = 10_000

// count counts a row. It returns ErrChunkTooLarge if there are too many.
func (f *relatedFinder) count() error {
	if f.rows++; (f.rows > maxRelated || f.bytes > comparedBytes) && !f.single {
		return ErrChunkTooLarge
	}
	return nil
}

// accountsWithMerges returns the accounts, and those into which they are merged, with the merges.
func (f *relatedFinder) accountsWithMerges() (allAccounts, allMerges []Import) {
	for domains := f.domains; f.err == nil; domains = nil {
		found := f.read(scanned(f.tenant, accounts.ScanAccount), lookup{accounts.AccountsByID, f.accounts}, lookup{accounts.AccountsByDomain, domains})
		allAccounts = append(allAccounts, found...)
		wanted := make([]engine.Args, len(found))
		for i, item := range found {
			wanted[i] = engine.Args{kernel.IDArg(f.tenant), kernel.IDArg(item.Record.(*atrium.Account).ID)}
		}
		f.accounts = nil
		allMerges = append(allMerges, f.read(func(r engine.Row) Record {
			return &atrium.Merge{AccountID: kernel.IDAt[atrium.AccountID](r, 0), Into: kernel.IDAt[atrium.AccountID](r, 1)}
		}, lookup{mergesByID, wanted})...)
		if len(f.accounts) == 0 {
			break
		}
	}
	return allAccounts, allMerges
}

func (f *relatedFinder) prospectsWithLinks() []Import {
	records := f.read(func(r engine.Row) Record {
		return &atrium.LinkedProspect{Prospect: accounts.ScanProspect(r, 0, f.tenant)}
	}, lookup{accounts.ProspectsByID, f.prospects})
	for _, item := range records {
		if f.err != nil {
			return nil
		}
		p := item.Record.(*atrium.LinkedProspect)
		_, f.err = f.tx.Batch(linksOfProspects, []engine.Args{{kernel.IDArg(f.tenant), kernel.IDArg(p.ID)}}, func(r engine.Row) error {
			p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 1))
			return f.count()
		})
		f.add(p)
	}
	return records
}
