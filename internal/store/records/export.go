package records

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
	"atrium/internal/store/register"
	"atrium/internal/store/tombstones"
)

// An export reads in chunks. Each is one short transaction of at most exportRows rows and about
// exportBytes bytes. The first chunk asks for few rows, and each later one for as many as the
// last chunk had room for, because a server sends all rows that a query asks for.
const (
	firstRows   = 4
	exportRows  = 500
	exportBytes = 4 << 20
)

// Export calls emit with every record of a tenant: accounts, merges, prospects, brands, pages,
// audiences, versions, tombstones and entries, each kind sorted by identifier (merges by the surviving
// account and then by the merged one, versions by audience and number). It emits the records that
// were stored when it began, except those deleted while it runs, and no record that refers to one
// that it leaves out. It ends however fast entries are appended. It holds one chunk in memory,
// and no transaction while emit runs. It returns NotFound if the tenant does not exist, or is deleted
// while it runs.
func (s *Store) Export(ctx context.Context, tenant atrium.TenantID, emit func(Record) error) error {
	if _, err := s.access.Tenant(ctx, tenant); err != nil {
		return err
	}
	began := int64(math.MaxInt64)
	if !s.db.Engine.Traits().Snapshots {
		var err error
		if began, err = s.beginExport(ctx, tenant); err != nil {
			return kernel.Public(err)
		}
	}
	return kernel.Public(s.db.Engine.Snapshot(ctx, func(db engine.DB) error {
		x := &exporter{ctx: ctx, db: db, tenant: tenant, began: began, emit: emit, afterRead: func() error { return s.db.RequireTenant(ctx, tenant) }}
		if err := x.begin(); err != nil {
			return err
		}
		for _, kind := range []func() error{x.accounts, x.merges, x.prospects, x.brands, x.pages, x.audiences, x.versions, x.tombstones, x.entries} {
			if err := kind(); err != nil {
				return err
			}
		}
		return nil
	}))
}

// An exporter is one run of Export. Rows that were stored after it began are left out together
// with all that refers to them, because a new account can sort before the accounts that were
// already read.
type exporter struct {
	ctx       context.Context
	db        engine.DB
	tenant    atrium.TenantID
	began     int64  // the result of beginExport
	lastEntry []byte // the highest identifier of an entry or tombstone when it began
	emit      func(Record) error
	afterRead func() error // returns atrium.NoTenant once the tenant is being deleted, also if the snapshot does not show it
}

// beginExport returns the latest stored_at, in microseconds since 1970, of the rows that belong
// to an export that begins now. All rows that are stored already belong to it, even if the clock
// that dated them was ahead of this one. All processes give rows that they store later a later
// stored_at, whatever their clock is. If the database cannot be written, the export runs
// nevertheless: then hardly anything else can be stored either.
func (s *Store) beginExport(ctx context.Context, tenant atrium.TenantID) (began int64, err error) {
	began = s.db.Now().UnixMicro()
	if err := s.db.Engine.Read(ctx, func(tx engine.Tx) error {
		for _, sql := range []string{
			"SELECT MAX(stored_at) FROM accounts WHERE tenant_id = $1",
			"SELECT MAX(stored_at) FROM brands WHERE tenant_id = $1",
			"SELECT MAX(stored_at) FROM pages WHERE tenant_id = $1",
			"SELECT MAX(stored_at) FROM audiences WHERE tenant_id = $1",
		} {
			if err := engine.Find(tx.Query, sql, engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) { began = max(began, r.Int(0)) }); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	err = s.db.Engine.Write(engine.ForTenant(ctx, string(tenant)), func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has it
		latest, err := kernel.LatestExport(tx)
		if err != nil || latest >= began {
			began = max(began, latest)
			return err
		}
		_, err = tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
			register.LatestExport, binary.BigEndian.AppendUint64(nil, uint64(began)))
		return err
	})
	if engine.ClassOf(err) == engine.Unavailable {
		err = ctx.Err()
	}
	return began, err
}

// begin finds the last entry or tombstone of the export.
func (x *exporter) begin() error {
	for _, sql := range []string{
		"SELECT entry_id FROM entries WHERE tenant_id = $1 ORDER BY entry_id DESC LIMIT 1",
		"SELECT entry_id FROM tombstones WHERE tenant_id = $1 ORDER BY entry_id DESC LIMIT 1",
	} {
		if err := x.db.Query(x.ctx, sql, engine.Args{kernel.IDArg(x.tenant)}, func(r engine.Row) error {
			if last := r.Bytes(0); bytes.Compare(last, x.lastEntry) > 0 {
				x.lastEntry = last
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// A chunk is the result of one transaction of an export.
type chunk struct {
	kernel.SizedRow
	limit   int64 // how many rows to ask for
	records []Record
}

// add adds the record that scan makes of a row.
func (c *chunk) add(r engine.Row, scan func(engine.Row) Record) error {
	c.Row = r
	c.records = append(c.records, scan(c))
	if c.Size >= exportBytes {
		return kernel.ErrPageFull
	}
	return nil
}

// each reads chunks until one is empty, and emits their records. read fills a chunk with the
// records after those of the previous chunk.
func (x *exporter) each(read func(engine.Tx, *chunk) error) error {
	for rows := firstRows; ; {
		var c chunk
		err := x.db.Read(x.ctx, func(tx engine.Tx) error {
			c = chunk{limit: int64(rows)}
			return read(tx, &c)
		})
		if err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return err
		}
		if rows = min(2*rows, exportRows); err != nil {
			rows = len(c.records) + 1
		}
		if err := x.afterRead(); err != nil {
			return err
		}
		if len(c.records) == 0 {
			return nil
		}
		for _, r := range c.records {
			if err := x.emit(r); err != nil {
				return err
			}
		}
	}
}

func (x *exporter) accounts() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+accounts.AccountColumns("$1")+` FROM accounts a
			WHERE a.tenant_id = $1 AND a.account_id > $2 AND a.stored_at <= $3 AND `+accounts.NotErased+` ORDER BY a.account_id LIMIT $4`,
			engine.Args{kernel.IDArg(x.tenant), after, x.began, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					a := accounts.ScanAccount(r, x.tenant)
					return &a
				})
			})
	})
}

func (x *exporter) prospects() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		err := tx.Query("SELECT "+accounts.ProspectColumns+` FROM prospects p
			WHERE p.tenant_id = $1 AND p.prospect_id > $2 ORDER BY p.prospect_id LIMIT $3`,
			engine.Args{kernel.IDArg(x.tenant), after, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					return &atrium.LinkedProspect{Prospect: accounts.ScanProspect(r, 0, x.tenant)}
				})
			})
		if err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return err
		}
		byID := make(map[atrium.ProspectID]*atrium.LinkedProspect, len(c.records))
		rows := make([]engine.Args, len(c.records))
		for i, r := range c.records {
			p := r.(*atrium.LinkedProspect)
			byID[p.ID] = p
			rows[i] = engine.Args{kernel.IDArg(x.tenant), kernel.IDArg(p.ID), x.began}
		}
		_, err = tx.Batch(exportedLinks, rows, func(r engine.Row) error {
			p := byID[kernel.IDAt[atrium.ProspectID](r, 0)]
			p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 1))
			return nil
		})
		return err
	})
}

var exportedLinks = engine.NewBatch(`SELECT l.prospect_id, l.account_id FROM batch `+ownLinks+`
	JOIN accounts a ON a.tenant_id = l.tenant_id AND a.account_id = l.account_id
	WHERE a.stored_at <= batch.began AND `+accounts.NotErased+` ORDER BY l.prospect_id, l.account_id`, "tenant_id bytea", "id bytea", "began bigint")

// exportMerges is how many merges one statement reads. They are small. Merges that one statement
// reads are consistent with each other, even if accounts are merged and split during the export.
const exportMerges = 20_000

func (x *exporter) merges() error {
	survivor, after := []byte{}, []byte{}
	for {
		var found []atrium.Merge
		err := x.db.Read(x.ctx, func(tx engine.Tx) error {
			found = nil
			return tx.Query(`SELECT a.account_id, a.merged_into, a.survivor_id FROM accounts a
				JOIN accounts p ON p.tenant_id = a.tenant_id AND p.account_id = a.merged_into
				WHERE a.tenant_id = $1 AND (a.survivor_id, a.account_id) > ($2, $3) AND a.survivor_id IS NOT NULL
					AND a.stored_at <= $4 AND p.stored_at <= $5 ORDER BY a.survivor_id, a.account_id LIMIT $6`,
				engine.Args{kernel.IDArg(x.tenant), survivor, after, x.began, x.began, int64(exportMerges)}, func(r engine.Row) error {
					found = append(found, atrium.Merge{AccountID: kernel.IDAt[atrium.AccountID](r, 0), Into: kernel.IDAt[atrium.AccountID](r, 1)})
					after, survivor = r.Bytes(0), r.Bytes(2)
					return nil
				})
		})
		if err != nil || len(found) == 0 {
			return err
		}
		for i := range found {
			if err := x.emit(&found[i]); err != nil {
				return err
			}
		}
	}
}

func (x *exporter) brands() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+pages.BrandColumns+` FROM brands b
			WHERE b.tenant_id = $1 AND b.brand_id > $2 AND b.stored_at <= $3 ORDER BY b.brand_id LIMIT $4`,
			engine.Args{kernel.IDArg(x.tenant), after, x.began, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					b := pages.ScanBrand(r, x.tenant)
					return &b
				})
			})
	})
}

func (x *exporter) pages() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+pages.PageColumns+", "+pages.ScheduleColumns+` FROM pages p
			WHERE p.tenant_id = $1 AND p.page_id > $2 AND p.stored_at <= $3 ORDER BY p.page_id LIMIT $4`,
			engine.Args{kernel.IDArg(x.tenant), after, x.began, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record { return pageRecord(r, x.tenant) })
			})
	})
}

func (x *exporter) audiences() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+pages.AudienceColumns+` FROM audiences u
			JOIN pages p ON p.tenant_id = u.tenant_id AND p.page_id = u.page_id
			WHERE u.tenant_id = $1 AND u.audience_id > $2 AND u.stored_at <= $3 AND p.stored_at <= $4
			ORDER BY u.audience_id LIMIT $5`,
			engine.Args{kernel.IDArg(x.tenant), after, x.began, x.began, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					u := pages.ScanAudience(r, x.tenant)
					return &u
				})
			})
	})
}

// versions reads which version of an audience is published with the row of its first version: it
// may change before the others are read.
func (x *exporter) versions() error {
	audience, number := []byte{}, int64(0)
	var shows int64
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+pages.VersionColumns+` FROM versions v
			JOIN audiences u ON u.tenant_id = v.tenant_id AND u.audience_id = v.audience_id
			JOIN pages p ON p.tenant_id = u.tenant_id AND p.page_id = u.page_id
			WHERE v.tenant_id = $1 AND (v.audience_id, v.number) > ($2, $3) AND u.stored_at <= $4 AND p.stored_at <= $5
			ORDER BY v.audience_id, v.number LIMIT $6`,
			engine.Args{kernel.IDArg(x.tenant), audience, number, x.began, x.began, c.limit}, func(r engine.Row) error {
				if !bytes.Equal(audience, r.Bytes(1)) {
					shows = r.Int(8)
				}
				return c.add(r, func(r engine.Row) Record {
					v := pages.ScanVersion(r, x.tenant)
					v.Published = v.Number == shows
					audience, number = r.Bytes(1), v.Number
					return &v
				})
			})
	})
}

// tombstones come before the entries: an entry that is erased in between is in neither, and none is in
// both.
func (x *exporter) tombstones() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+tombstones.Columns("$1")+` FROM tombstones t
			WHERE t.tenant_id = $1 AND t.entry_id > $2 AND t.entry_id <= $3 ORDER BY t.entry_id LIMIT $4`,
			engine.Args{kernel.IDArg(x.tenant), after, x.lastEntry, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					t := tombstones.Scan(r, x.tenant)
					return &t
				})
			})
	})
}

// entries includes entries that were moved during the export to an account that is not exported.
// It exports them in the account in which they were recorded.
func (x *exporter) entries() error {
	after := []byte{}
	return x.each(func(tx engine.Tx, c *chunk) error {
		return tx.Query("SELECT "+entries.EntryColumns+`, CASE WHEN a.stored_at <= $1 THEN 1 ELSE 0 END FROM entries e
			LEFT JOIN accounts a ON a.tenant_id = e.tenant_id AND a.account_id = e.account_id AND `+accounts.NotErased+`
			LEFT JOIN accounts k ON k.tenant_id = e.tenant_id AND k.account_id = e.acknowledged_account_id AND `+strings.ReplaceAll(accounts.NotErased, "a.", "k.")+`
			WHERE e.tenant_id = $2 AND e.entry_id > $3 AND e.entry_id <= $4 AND (a.stored_at <= $1 OR k.stored_at <= $1)
			ORDER BY e.entry_id LIMIT $5`,
			engine.Args{x.began, kernel.IDArg(x.tenant), after, x.lastEntry, c.limit}, func(r engine.Row) error {
				after = r.Bytes(0)
				return c.add(r, func(r engine.Row) Record {
					e := entries.ScanEntry(r, x.tenant)
					if r.Int(entries.EntryColumnsLen) == 0 {
						e.AccountID, e.AcknowledgedID = e.AcknowledgedID, ""
					}
					return &e
				})
			})
	})
}
