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
)

// A Trial imports records without storing them: into a scratch database, to
// which it first copies whatever the records refer to or could be in conflict
// with. It sees what is stored when each chunk is tried, and takes no lock on
// the store. It is used by one goroutine.
type Trial struct {
	store   *Store
	scratch *Store
	tenant  atrium.TenantID
	acquire func(context.Context) (release func(), err error)
}

// NewTrial returns a Trial for a tenant of a store, on a scratch store that has nothing but the
// schema. acquire waits until the Trial may use the processor, which it gives back between parts
// of its work.
func NewTrial(store, scratch *Store, tenant atrium.TenantID, acquire func(context.Context) (release func(), err error)) *Trial {
	return &Trial{store: store, scratch: scratch, tenant: tenant, acquire: acquire}
}

// relatedAtOnce is how many related records are copied before others may use the processor.
const relatedAtOnce = 500

// Import does what Store.Import would do with the chunk after those that were
// tried before it. It is ErrChunkTooLarge also if the chunk is related to too much.
func (t *Trial) Import(ctx context.Context, chunk []Import) (added int, err error) {
	var related related
	if err := t.part(ctx, func() error {
		return t.store.db.Read(ctx, func(tx engine.Tx) error {
			related, err = t.related(tx, chunk)
			return err
		})
	}); err != nil {
		return 0, err
	}
	for part := range slices.Chunk(related.records, relatedAtOnce) {
		if err := t.part(ctx, func() error {
			_, err := t.scratch.importChunk(ctx, atrium.CommandLine(t.tenant), part, true)
			return err
		}); err != nil {
			return 0, fmt.Errorf("the store was changed while lines were checked: %w", err)
		}
	}
	err = t.part(ctx, func() error {
		if len(related.numbers)+len(related.erased) > 0 {
			if err := t.scratch.db.Write(ctx, related.write); err != nil {
				return err
			}
		}
		added, err = t.scratch.Import(ctx, atrium.CommandLine(t.tenant), chunk)
		return err
	})
	return added, err
}

// part does a part of the work when the Trial may use the processor.
func (t *Trial) part(ctx context.Context, f func() error) error {
	release, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// related is what is stored that a chunk may depend on.
type related struct {
	records []Import      // each after those that it refers to
	numbers []engine.Args // rows of raiseNumbers: how far the numbers of the audiences have come
	shown   []engine.Args // rows of publishVersions: what the audiences show
	erased  []engine.Args // rows of erasures.InsertErasures
}

// write stores all but the records.
func (r *related) write(tx engine.Tx) error {
	if _, err := tx.Batch(raiseNumbers, r.numbers, nil); err != nil {
		return err
	}
	if _, err := tx.Batch(publishVersions, r.shown, nil); err != nil {
		return err
	}
	_, err := tx.Batch(erasures.InsertErasures, r.erased, nil)
	return err
}

// related returns the stored records that the chunk names, refers to, or shares a unique
// member with, and the erasures of its accounts that are not complete.
func (t *Trial) related(tx engine.Tx, chunk []Import) (found related, err error) {
	f := &relatives{tx: tx, tenant: t.tenant, found: map[string]bool{}, single: len(chunk) == 1}
	var named []engine.Args // rows of findErasures
	for _, item := range chunk {
		f.want(item.Record)
		if a, ok := item.Record.(*atrium.Account); ok {
			named = append(named, engine.Args{kernel.IDArg(t.tenant), kernel.IDArg(a.ID)})
		}
		if item.LegacyDomain != "" {
			f.domains = append(f.domains, engine.Args{kernel.IDArg(t.tenant), kernel.Hash16(item.LegacyDomain)})
		}
	}
	// What refers to others is read first, so that these are known when their
	// turn comes.
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
	found.records = slices.Concat(allAccounts, allMerges, allProspects, allBrands, allPages, allAudiences, allVersions, allEntries)
	if f.err != nil {
		return found, f.err
	}
	_, err = tx.Batch(findErasures, named, func(r engine.Row) error {
		found.erased = append(found.erased, engine.Args{kernel.IDArg(t.tenant), r.Bytes(0), r.Int(1)})
		return nil
	})
	return found, err
}

// scanned returns a scan function that makes records.
func scanned[T any](tenant atrium.TenantID, scan func(engine.Row, atrium.TenantID) T) func(engine.Row) Record {
	return func(r engine.Row) Record {
		v := scan(r, tenant)
		return &v
	}
}

// relatives collects the arguments by which related records are found.
type relatives struct {
	tx     engine.Tx
	tenant atrium.TenantID
	found  map[string]bool // by identity
	err    error           // the first one
	single bool            // they are of one record
	rows   int             // how many were read
	bytes  int             // of these

	accounts, domains, prospects, brands, pages, audiences, versions, numbers, entries, entryKeys []engine.Args
}

// unknownFingerprint stands in a scratch database for the fingerprints of what is stored:
// no request is compared with them.
var unknownFingerprint = []byte{0}

type lookup struct {
	batch *engine.Batch
	rows  []engine.Args
}

// want asks for a record with the same identifier or another unique member, and
// for what the record refers to.
func (f *relatives) want(record Record) {
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
	case *atrium.Entry:
		f.entries, f.accounts = append(f.entries, args(kernel.IDArg(r.ID))), append(f.accounts, args(kernel.IDArg(r.AccountID)))
		if r.IdempotencyKey != "" {
			f.entryKeys = append(f.entryKeys, args(kernel.KeyMatch(r.IdempotencyKey)))
		}
	}
}

// read returns the records that the lookups find, each once, and asks for what
// they refer to.
func (f *relatives) read(scan func(engine.Row) Record, lookups ...lookup) (records []Import) {
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
		f.want(item.Record)
	}
	return records
}

// maxRelated is how many rows a chunk may be related to, unless it is one record.
const maxRelated = 10_000

// count counts a row. It is ErrChunkTooLarge if there are too many.
func (f *relatives) count() error {
	if f.rows++; (f.rows > maxRelated || f.bytes > comparedBytes) && !f.single {
		return ErrChunkTooLarge
	}
	return nil
}

// accountsWithMerges returns the accounts, with all that they lead to.
func (f *relatives) accountsWithMerges() (allAccounts, allMerges []Import) {
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

func (f *relatives) prospectsWithLinks() []Import {
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
		f.want(p)
	}
	return records
}
