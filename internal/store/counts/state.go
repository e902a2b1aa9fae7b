package counts

import (
	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A state is a row of entry_counting: which entries of a tenant are counted. Its zero value, apart from
// the tenant, is that of a tenant without a row.
type state struct {
	tenant      atrium.TenantID
	version     int64 // 0 for no row
	recountedAt atrium.Time
	pass        pass
	next        *pass // the recount; nil while none runs
}

// A pass counts all entries of a tenant.
type pass struct {
	number        int64
	types         int64  // rows of entry_count_types
	untimelyAfter []byte // untimely entries are counted up to this identifier, and timely ones up to the next
	timelyAfter   []byte
}

// passes returns the current pass and the recount, if one runs.
func (s *state) passes() []*pass {
	if s.next == nil {
		return []*pass{&s.pass}
	}
	return []*pass{&s.pass, s.next}
}

const selectState = `SELECT version, pass, types, untimely_after, timely_after, recounted_at, next_types, next_untimely_after, next_timely_after
	FROM entry_counting WHERE tenant_id = $1`

// findState reads the row of a tenant. query is that of a transaction, or tx.Lock.
func findState(query kernel.QueryFunc, tenant atrium.TenantID) (*state, error) {
	s := &state{tenant: tenant, pass: pass{number: 1, untimelyAfter: []byte{}, timelyAfter: []byte{}}}
	err := query(selectState, engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		s.version, s.recountedAt = r.Int(0), atrium.Time(r.Int(5))
		s.pass = pass{r.Int(1), r.Int(2), r.Bytes(3), r.Bytes(4)}
		if !r.Null(6) {
			s.next = &pass{s.pass.number + 1, r.Int(6), r.Bytes(7), r.Bytes(8)}
		}
		return nil
	})
	return s, err
}

// lockState locks the row of a tenant, and adds it first if there is none.
func lockState(tx engine.Tx, tenant atrium.TenantID) (*state, error) {
	s, err := findState(tx.Lock, tenant)
	if err != nil || s.version > 0 {
		return s, err
	}
	if _, err := tx.Exec(`INSERT INTO entry_counting (tenant_id, version, pass, types, untimely_after, timely_after, recounted_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant_id) DO NOTHING`,
		kernel.IDArg(tenant), int64(1), s.pass.number, int64(0), s.pass.untimelyAfter, s.pass.timelyAfter, int64(0)); err != nil {
		return nil, err
	}
	return findState(tx.Lock, tenant)
}

// save stores the row, which the transaction has locked.
func (s *state) save(tx engine.Tx) error {
	var types, untimelyAfter, timelyAfter any
	if s.next != nil {
		types, untimelyAfter, timelyAfter = s.next.types, s.next.untimelyAfter, s.next.timelyAfter
	}
	_, err := tx.Exec(`UPDATE entry_counting SET version = version + 1, pass = $1, types = $2, untimely_after = $3, timely_after = $4,
			recounted_at = $5, next_types = $6, next_untimely_after = $7, next_timely_after = $8 WHERE tenant_id = $9`,
		s.pass.number, s.pass.types, s.pass.untimelyAfter, s.pass.timelyAfter, int64(s.recountedAt), types, untimelyAfter, timelyAfter, kernel.IDArg(s.tenant))
	return err
}

// A kind is a source and type, both "" for those that are not counted separately.
type kind struct{ source, entryType string }

// A cell is a number that is stored.
type cell struct {
	interval atrium.Interval
	startsAt atrium.Time
	kind
}

// numbers are changes of stored numbers.
type numbers map[cell]int64

func (n numbers) add(e *Entry, sign int64) {
	for _, interval := range []atrium.Interval{atrium.Hourly, atrium.Daily} {
		n[cell{interval, start(e.CreatedAt, interval), kind{e.Source, e.Type}}] += sign
	}
}

// start returns the start of the period that contains a time, which may be before 1970.
func start(at atrium.Time, interval atrium.Interval) atrium.Time {
	length := interval.Micros()
	return at - (at%length+length)%length
}

var (
	// A join might read the whole table, which has several columns in its key.
	findTypes = engine.NewBatch(`SELECT batch.source, batch.type, (SELECT 1 FROM entry_count_types t
		WHERE t.tenant_id = batch.tenant_id AND t.pass = batch.pass AND t.source = batch.source AND t.type = batch.type) FROM batch`,
		"tenant_id bytea", "pass bigint", "source text", "type text")
	insertTypes = engine.NewBatch(`INSERT INTO entry_count_types (tenant_id, pass, source, type)
		SELECT batch.tenant_id, pass, source, type FROM batch`, "tenant_id bytea", "pass bigint", "source text", "type text")

	addCells = engine.NewBatch(`INSERT INTO entry_counts (tenant_id, pass, hours, starts_at, source, type, entries)
		SELECT batch.tenant_id, pass, hours, starts_at, source, type, entries FROM batch WHERE true
		ON CONFLICT (tenant_id, pass, hours, starts_at, source, type) DO UPDATE SET entries = entry_counts.entries + excluded.entries`,
		"tenant_id bytea", "pass bigint", "hours bigint", "starts_at bigint", "source text", "type text", "entries bigint")
)

// write changes the stored numbers of the pass. Those that become 0 stay until a recount. The transaction has locked the state, and saves it.
func (p *pass) write(tx engine.Tx, tenant atrium.TenantID, n numbers) error {
	if len(n) == 0 {
		return nil
	}
	separate, err := p.separateTypes(tx, tenant, n)
	if err != nil {
		return err
	}
	stored := numbers{}
	for c, by := range n {
		if !separate[c.kind] {
			c.kind = kind{}
		}
		stored[c] += by
	}
	rows := make([]engine.Args, 0, len(stored))
	for c, by := range stored {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), p.number, int64(c.interval), int64(c.startsAt), c.source, c.entryType, by})
	}
	_, err = tx.Batch(addCells, rows, nil)
	return err
}

// separateTypes returns those of the sources and types in n that are counted separately. The first
// MaxCountedTypes that are added stay so until a recount.
func (p *pass) separateTypes(tx engine.Tx, tenant atrium.TenantID, n numbers) (map[kind]bool, error) {
	separate := map[kind]bool{}
	var rows []engine.Args
	for c := range n {
		if _, seen := separate[c.kind]; !seen {
			separate[c.kind] = false
			rows = append(rows, engine.Args{kernel.IDArg(tenant), p.number, c.source, c.entryType})
		}
	}
	if _, err := tx.Batch(findTypes, rows, func(r engine.Row) error {
		separate[kind{r.Text(0), r.Text(1)}] = !r.Null(2)
		return nil
	}); err != nil {
		return nil, err
	}
	var added []engine.Args
	for c, by := range n {
		if by > 0 && !separate[c.kind] && p.types < atrium.MaxCountedTypes {
			separate[c.kind] = true
			p.types++
			added = append(added, engine.Args{kernel.IDArg(tenant), p.number, c.source, c.entryType})
		}
	}
	if len(added) == 0 {
		return separate, nil
	}
	_, err := tx.Batch(insertTypes, added, nil)
	return separate, err
}
