package copies

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"time"

	"golang.org/x/sync/errgroup"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// maxDifferences is the maximum number of differences in a report.
const maxDifferences = 20

// A Report is the result of a copy or comparison.
type Report struct {
	Tenants     int64        `json:"tenants"`               // compared
	Skipped     int64        `json:"skippedTenants"`        // completed by an earlier run
	Tables      []*Table     `json:"tables"`                // compared
	Differences []Difference `json:"differences,omitempty"` // up to 20
	More        int64        `json:"moreDifferences,omitempty"`

	// AlreadyCopied says that the target had all of this before, so nothing was copied.
	AlreadyCopied bool `json:"alreadyCopied,omitempty"`

	sums        map[string]hash.Hash
	stopAtFirst bool // a difference ends the comparison with errDiffers
}

// A Table has the number of compared rows of a table, and their checksum in the source.
type Table struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// A Difference is a table, or a setting, that is not the same in both databases.
type Difference struct {
	Tenant atrium.TenantID `json:"tenantId,omitempty"` // "" for data of operators
	Table  string          `json:"table"`
	From   Sum             `json:"from"`
	To     Sum             `json:"to"`
}

// A Sum is the number of rows of a tenant in a table, and their checksum.
type Sum struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

func newReport() *Report { return &Report{sums: map[string]hash.Hash{}} }

// Different reports whether the databases differ.
func (r *Report) Different() bool { return len(r.Differences) > 0 }

// Rows returns the number of rows that were compared.
func (r *Report) Rows() (rows int64) {
	for _, t := range r.Tables {
		rows += t.Rows
	}
	return rows
}

// add adds the result of a comparison to the report.
func (r *Report) add(tenant atrium.TenantID, name string, from, to Sum) {
	h := r.sums[name]
	if h == nil {
		h = sha256.New()
		r.sums[name] = h
		r.Tables = append(r.Tables, &Table{Name: name})
	}
	_, _ = h.Write([]byte(from.SHA256)) // never fails
	for _, t := range r.Tables {
		if t.Name == name {
			t.Rows += from.Rows
			t.SHA256 = hex.EncodeToString(h.Sum(nil))
		}
	}
	switch {
	case from == to:
	case len(r.Differences) < maxDifferences:
		r.Differences = append(r.Differences, Difference{tenant, name, from, to})
	default:
		r.More++
	}
}

// CompareTenant compares all tables of a tenant. It returns NotFound if the source does not have
// the tenant, and Conflict if its copy there is not complete.
func (c *Copier) CompareTenant(ctx context.Context, id atrium.TenantID) (*Report, error) {
	r := newReport()
	if err := c.requireTenant(ctx, id); err != nil {
		return r, err
	}
	return r, c.compareTenant(ctx, id, r)
}

func (c *Copier) compareTenant(ctx context.Context, id atrium.TenantID, r *Report) error {
	if r.stopAtFirst { // a tenant that the target is deleting may still have all rows
		if found, err := exists(c.To.OutsideTx(ctx), hasTenantToCopy, tenantArg(id)); err != nil || !found {
			return cmp.Or(err, errDiffers)
		}
	}
	for _, t := range tables() {
		if err := c.compareTable(ctx, t, id, tenantArg(id), r); err != nil {
			return err
		}
	}
	r.Tenants++
	return nil
}

// expiryMargin is the time before the expiry of a row from which on it is not compared: a job of the
// source may delete it during the comparison, and clocks may differ.
const expiryMargin = time.Hour

// compareTable compares the rows of a tenant, or of operators for nil.
func (c *Copier) compareTable(ctx context.Context, t *table, id atrium.TenantID, tenant any, r *Report) error {
	if !t.Compared() {
		return nil
	}
	until := c.From.Now().Add(expiryMargin).UnixMicro()
	var sums [2]Sum
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		sums[0], err = t.read(c.From.OutsideTx(ctx), tenant).sum(until, c.progressed)
		return err
	})
	group.Go(func() (err error) {
		sums[1], err = t.read(c.To.OutsideTx(ctx), tenant).sum(until, func(int) {})
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.add(id, t.Name, sums[0], sums[1])
	if r.stopAtFirst && r.Different() {
		return errDiffers
	}
	return nil
}

// sum returns the number of rows that the reader returns, and their checksum, without those that
// expire until a time in microseconds since 1970. It calls progressed with the number of rows of each
// batch.
func (r *reader) sum(until int64, progressed func(rows int)) (Sum, error) {
	h, n, buffer := sha256.New(), int64(0), []byte(nil)
	for {
		rows, err := r.next()
		if err != nil {
			return Sum{}, err
		}
		if len(rows) == 0 {
			return Sum{n, hex.EncodeToString(h.Sum(nil))}, nil
		}
		for _, row := range rows {
			if r.table.expires(row, until) {
				continue
			}
			buffer = r.table.digest(h, row, buffer)
			n++
		}
		progressed(len(rows))
	}
}

// compareSettings compares the settings that a copy of everything copies.
func (c *Copier) compareSettings(ctx context.Context, r *Report) error {
	for name, copying := range register.Settings {
		if copying != register.Copied {
			continue
		}
		var sums [2]Sum
		for i, db := range []*kernel.DB{c.From, c.To} {
			if err := db.Query(ctx, readSetting, engine.Args{name}, func(row engine.Row) error {
				sum := sha256.Sum256(row.View(0))
				sums[i] = Sum{1, hex.EncodeToString(sum[:])}
				return nil
			}); err != nil {
				return err
			}
		}
		r.add("", "settings", sums[0], sums[1])
	}
	return nil
}
