package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/store/engine"
)

// This file writes the audit log: a row for each change, in the transaction of the
// change, in one chain for each tenant. Whoever changes something locks the head of
// the chain as the last thing, so that changes wait for each other only while they
// commit. Entries are not audited, and never come near it.

// Fields are the members of a thing as the audit log shows them, by their names.
type Fields map[string]any

// maxAudited is how much of one member the audit log keeps, in bytes. Of a longer
// one it has the length and the SHA-256.
const maxAudited = 4 << 10

// An act is a row that a transaction is going to write.
type act struct {
	action, subject string
	detail          []byte
}

// Record notes what was done to a subject, the identifier of a thing: its fields
// before, nil if it was not there, and after, nil if it is no more. Of a thing that
// was there all the time, only what differs is kept.
func (tx *Mutation) Record(action, subject string, before, after Fields) {
	if before != nil && after != nil {
		differs := func(one, other Fields) Fields {
			one = maps.Clone(one)
			maps.DeleteFunc(one, func(name string, value any) bool {
				has, ok := other[name]
				return ok && reflect.DeepEqual(value, has)
			})
			return one
		}
		before, after = differs(before, after), differs(after, before)
	}
	detail := map[string]any{}
	if before != nil {
		detail["before"] = Audited(before)
	}
	if after != nil {
		detail["after"] = Audited(after)
	}
	tx.RecordDetail(action, subject, detail)
}

// RecordDetail is record with a detail of another form, which holds no secret and
// no payload.
func (tx *Mutation) RecordDetail(action, subject string, detail map[string]any) {
	b, err := json.Marshal(detail, json.Deterministic(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		tx.failure = fmt.Errorf("audit %s: %w", action, err)
		return
	}
	tx.acts = append(tx.acts, act{action, subject, b})
}

// Audited returns fields as they are kept.
func Audited(all Fields) map[string]any {
	kept := make(map[string]any, len(all))
	for name, value := range all {
		b, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowDuplicateNames(true))
		switch {
		case err != nil:
			kept[name] = nil // nothing that is not JSON
		case len(b) > maxAudited:
			sum := sha256.Sum256(b)
			kept[name] = map[string]any{"bytes": len(b), "sha256": hex.EncodeToString(sum[:])}
		default:
			kept[name] = jsontext.Value(b)
		}
	}
	return kept
}

// RawJSON returns JSON that a thing has as a value of a field; nil for none.
func RawJSON(b []byte) any {
	if b == nil {
		return nil
	}
	return jsontext.Value(b)
}

// AuditColumns are those of a row of the audit log in the order in which ScanAudit reads them.
const AuditColumns = "number, at, actor, action, subject, request_id, detail, salt, detail_hash, hash"

// ScanAudit reads AuditColumns, which start at column 0.
func ScanAudit(r engine.Row) atrium.AuditRow {
	return atrium.AuditRow{
		Number: r.Int(0), At: atrium.Time(r.Int(1)), Actor: r.Text(2), Action: r.Text(3), Subject: r.Text(4), RequestID: r.Text(5),
		Detail: r.Bytes(6), Salt: r.Bytes(7), DetailHash: r.Bytes(8), Hash: r.Bytes(9),
	}
}

var insertAudit = engine.NewBatch(`INSERT INTO audit (tenant_id, `+AuditColumns+`)
	SELECT batch.tenant_id, number, at, actor, action, subject, request_id, detail, salt, detail_hash, hash FROM batch`,
	"tenant_id bytea", "number bigint", "at bigint", "actor text", "action text", "subject text", "request_id text",
	"detail bytea", "salt bytea", "detail_hash bytea", "hash bytea")

var moveHeads = engine.NewBatch(`UPDATE audit_heads SET number = batch.number, hash = batch.hash
	FROM batch WHERE audit_heads.tenant_id = batch.tenant_id`, "tenant_id bytea", "number bigint", "hash bytea")

// writeAudit adds what was recorded to the tenant's chain. On a server that is one
// round trip: the rows go with the commit.
func (tx *Mutation) writeAudit() error {
	if len(tx.acts) == 0 {
		return nil
	}
	tenant := IDArg(tx.Change.TenantID)
	var number int64
	var previous []byte
	for found := false; !found; { // there is no head before the first row
		if err := tx.Lock("SELECT number, hash FROM audit_heads WHERE tenant_id = $1", engine.Args{tenant}, func(r engine.Row) error {
			found, number, previous = true, r.Int(0), r.Bytes(1)
			return nil
		}); err != nil {
			return err
		}
		if found {
			break
		}
		if _, err := tx.Exec("INSERT INTO audit_heads (tenant_id, number, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
			tenant, int64(0), []byte{}); err != nil {
			return err
		}
	}
	rows := make([]engine.Args, len(tx.acts))
	for i, a := range tx.acts {
		number++
		row := atrium.AuditRow{
			Number: number, At: tx.At, Actor: tx.Change.Actor, Action: a.action, Subject: a.subject,
			RequestID: tx.Change.RequestID, Detail: a.detail,
		}
		row.Seal(tx.Change.TenantID, previous)
		previous = row.Hash
		rows[i] = engine.Args{
			tenant, row.Number, int64(row.At), row.Actor, row.Action, row.Subject, row.RequestID,
			row.Detail, row.Salt, row.DetailHash, row.Hash,
		}
	}
	if err := tx.PipelineExec(insertAudit, rows); err != nil {
		return err
	}
	return tx.PipelineExec(moveHeads, []engine.Args{{tenant, number, previous}})
}

// Redact takes the details out of all rows about a subject that are written
// already. The chain holds on: it covers their hashes. What redacts is recorded as
// well, under the same subject or with it in the member "redacted" of its detail,
// which is how a verifier knows that nobody else did it. So those records stay: an
// account that was erased, imported and erased again has two.
func (tx *Mutation) Redact(subject string) error {
	_, err := tx.Exec("UPDATE audit SET detail = NULL, salt = NULL WHERE tenant_id = $1 AND subject = $2 AND action NOT IN ($3, $4)",
		IDArg(tx.Change.TenantID), subject, atrium.ActionEraseAccount, atrium.ActionDeleteProspect)
	return err
}
