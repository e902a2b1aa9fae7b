package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/receivers"
)

// An erasure of a person is a row of erasure_jobs, which a background job works on: one bounded
// transaction at a time, which also stores where the next one continues. So it survives a crash, and
// several nodes may work on it. A row in pending_erasures lets every node find it.
//
// The rule contains personal data. It is deleted as soon as everything that it selects is, and the
// purge that follows removes it from the file as well.

// The stages of an erasure job.
const (
	jobQuarantine = iota
	jobEntries    // and the rules of moves that moved them
	jobRules      // rules of moves that contain a value of the rule
	jobProspects  // and their audit details and stored results
	jobPurge
	jobDone
)

// Columns of erasure_jobs that scanJob reads. Requests do not need the rule.
const (
	jobColumns      = "erasure_id, account_id, entries, prospects, quarantined, created_at, completed_at, rule, stage, position_key, position_text, actor"
	selectRequested = `SELECT erasure_id, account_id, entries, prospects, quarantined, created_at, completed_at, NULL, stage, position_key, position_text, actor
		FROM erasure_jobs WHERE tenant_id = `
)

// A job is a row of erasure_jobs.
type job struct {
	atrium.Erasure
	rule  atrium.ErasureRule
	stage int64
	after *atrium.Position // nil at the beginning of the stage
	actor string
}

// scanJob reads jobColumns, starting at column 0.
func scanJob(r engine.Row, tenant atrium.TenantID) (j job, err error) {
	j.Erasure = atrium.Erasure{
		ID: kernel.IDAt[atrium.ErasureID](r, 0), TenantID: tenant, AccountID: kernel.IDAt[atrium.AccountID](r, 1),
		Entries: r.Int(2), Prospects: r.Int(3), Quarantined: r.Int(4), CreatedAt: atrium.Time(r.Int(5)), CompletedAt: kernel.TimeAt(r, 6),
	}
	if rule := r.Bytes(7); rule != nil { // without a condition of a newer release, it would select more
		err = json.Unmarshal(rule, &j.rule, json.RejectUnknownMembers(true))
	}
	if j.stage, j.actor = r.Int(8), r.Text(11); r.Text(10) != "" {
		j.after = &atrium.Position{Key: r.Int(9), ID: r.Text(10)}
	}
	return j, err
}

const selectJob = "SELECT " + jobColumns + " FROM erasure_jobs WHERE tenant_id = $1 AND erasure_id = $2"

// CreateErasure stores an erasure, which a background job performs. It returns NotFound if the
// account does not exist, and Conflict if atrium.MaxErasures of the tenant are not complete.
func (s *Store) CreateErasure(ctx context.Context, c atrium.Change, request atrium.ErasureRequest) (atrium.Erasure, bool, error) {
	rule, err := json.Marshal(request.Rule)
	if err != nil {
		return atrium.Erasure{}, false, fmt.Errorf("encode the rule of an erasure: %w", err)
	}
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Erasure, error) {
		e := atrium.Erasure{ID: atrium.NewID[atrium.ErasureID](), TenantID: c.TenantID, CreatedAt: tx.At}
		if request.AccountID != "" {
			if e.AccountID, err = accounts.FindSurvivor(tx, c.TenantID, request.AccountID); err != nil {
				return e, err
			}
		}
		pending := 0
		if err := tx.Query("SELECT erasure_id FROM pending_erasures WHERE tenant_id = $1 LIMIT $2",
			engine.Args{kernel.IDArg(c.TenantID), int64(atrium.MaxErasures)}, func(engine.Row) error {
				pending++
				return nil
			}); err != nil {
			return e, err
		}
		if pending == atrium.MaxErasures {
			return e, atrium.Errorf(atrium.CodeConflict, "%d erasures of the tenant are not complete. Try again when one is.", pending)
		}
		stage := jobQuarantine
		switch {
		case !request.Rule.HasEntries():
			stage = jobRules
		case receivers.NewMatcher(&request) == nil:
			stage = jobEntries
		}
		if _, err := tx.Exec(`INSERT INTO erasure_jobs (tenant_id, erasure_id, account_id, rule, stage, position_key, position_text, entries, prospects, actor, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, kernel.IDArg(c.TenantID), kernel.IDArg(e.ID), kernel.IDArg(e.AccountID), rule,
			int64(stage), int64(0), "", int64(0), int64(0), c.Actor, int64(e.CreatedAt)); err != nil {
			return e, err
		}
		detail := map[string]any{"conditions": request.Rule.Conditions()}
		if e.AccountID != "" {
			detail["accountId"] = e.AccountID
		}
		tx.RecordDetail("erasure.create", string(e.ID), detail)
		_, err := tx.Exec("INSERT INTO pending_erasures (tenant_id, erasure_id) VALUES ($1, $2)", kernel.IDArg(c.TenantID), kernel.IDArg(e.ID))
		return e, err
	})
}

// FindErasure returns an erasure, or NotFound.
func (s *Store) FindErasure(ctx context.Context, tenant atrium.TenantID, id atrium.ErasureID) (atrium.Erasure, error) {
	j, err := s.readJob(ctx, selectRequested+"$1 AND erasure_id = $2", tenant, id)
	return j.Erasure, err
}

func (s *Store) findJob(ctx context.Context, tenant atrium.TenantID, id atrium.ErasureID) (job, error) {
	return s.readJob(ctx, selectJob, tenant, id)
}

// readJob runs a query for one erasure. It returns NotFound if there is none.
func (s *Store) readJob(ctx context.Context, query string, tenant atrium.TenantID, id atrium.ErasureID) (j job, err error) {
	var scanErr error
	err = s.db.Find(ctx, query, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { j, scanErr = scanJob(r, tenant) })
	return j, errors.Join(err, scanErr)
}

// Erasures returns up to limit erasures, newest first, after a position, nil for the first page. more
// reports whether others follow.
func (s *Store) Erasures(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (found []atrium.Erasure, more bool, err error) {
	q := kernel.Select(selectRequested, kernel.IDArg(tenant))
	if after != nil {
		q.Add(" AND erasure_id < ", kernel.PackID(after.ID))
	}
	q.Add(" ORDER BY erasure_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.Erasure {
		j, _ := scanJob(r, tenant) // without its rule
		return j.Erasure
	})
}

// The Key of a cursor of CheckErasure that points into the prospects, and the least one of a cursor that points into the
// deliveries in quarantine. Entries, which come first, have smaller keys.
const (
	prospectKey   = 1 << 62
	quarantineKey = prospectKey + 1
)

// firstProspect is before all prospects.
var firstProspect = atrium.Position{Key: prospectKey, ID: "00000000000000000000000000"}

// CheckErasure returns a page of up to limit entries, then prospects, and then deliveries in quarantine that an erasure would erase
// now, after a position, nil for the first page. next is the position to continue after, nil at the
// end. A page may be short, or even empty, before the end. It returns NotFound if the account does not
// exist.
func (s *Store) CheckErasure(ctx context.Context, tenant atrium.TenantID, request atrium.ErasureRequest, after *atrium.Position, limit int,
) (found []atrium.Match, next *atrium.Position, err error) {
	search, err := entries.NewSearch(&request.Rule)
	if err != nil {
		return nil, nil, err
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		found, next = nil, nil
		if request.Rule.HasEntries() && (after == nil || after.Key < prospectKey) {
			matching, position, err := search.Find(tx, tenant, request.AccountID, after, limit)
			if err != nil {
				return err
			}
			if found, err = entries.Describe(tx, tenant, matching); err != nil || position != nil {
				next = position
				return err
			}
		}
		from := after
		if from == nil || from.Key < prospectKey {
			from = &firstProspect
		}
		if request.Rule.ProspectEmail != "" && from.Key == prospectKey {
			if len(found) == limit {
				next = from
				return nil
			}
			ids, position, err := FindProspects(tx, tenant, request.AccountID, request.Rule.ProspectEmail, from, limit-len(found))
			if err == nil {
				found, err = appendProspects(tx, tenant, found, ids)
			}
			if err != nil {
				return err
			}
			if next = position; next != nil {
				next.Key = prospectKey
				return nil
			}
		}
		found, next, err = s.checkQuarantine(tx, tenant, request, from, found, limit)
		return err
	})
	return found, next, err
}

// appendProspects appends prospects to a page of CheckErasure.
func appendProspects(tx engine.Tx, tenant atrium.TenantID, found []atrium.Match, ids []atrium.ProspectID) ([]atrium.Match, error) {
	rows, first := make([]engine.Args, len(ids)), len(found)
	for i, id := range ids {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	}
	_, err := tx.Batch(accounts.ProspectsByID, rows, func(r engine.Row) error {
		p := accounts.ScanProspect(r, 0, tenant)
		found = append(found, atrium.Match{ProspectID: p.ID, Name: p.Name, Email: p.Email})
		return nil
	})
	slices.SortFunc(found[first:], func(a, b atrium.Match) int { return cmp.Compare(a.ProspectID, b.ProspectID) })
	return found, err
}

// checkQuarantine adds deliveries in quarantine to a page of CheckErasure.
func (s *Store) checkQuarantine(tx engine.Tx, tenant atrium.TenantID, request atrium.ErasureRequest, from *atrium.Position, found []atrium.Match, limit int,
) (_ []atrium.Match, next *atrium.Position, err error) {
	m := receivers.NewMatcher(&request)
	if m == nil {
		return found, nil, nil
	}
	var after *atrium.Position
	if from.Key >= quarantineKey {
		after = &atrium.Position{Key: from.Key - quarantineKey, ID: from.ID}
	}
	if len(found) == limit {
		err := tx.Query("SELECT 1 FROM quarantine WHERE tenant_id = $1 LIMIT 1", engine.Args{kernel.IDArg(tenant)}, func(engine.Row) error {
			next = &atrium.Position{Key: quarantineKey, ID: firstProspect.ID}
			return nil
		})
		return found, next, err
	}
	deliveries, next, err := m.Find(tx, tenant, after, limit-len(found))
	if next != nil {
		next.Key += quarantineKey
	}
	for i := range deliveries {
		d := &deliveries[i]
		found = append(found, atrium.Match{QuarantinedID: d.ID, ReceiverID: d.ReceiverID, CreatedAt: d.ReceivedAt})
	}
	return found, next, err
}
