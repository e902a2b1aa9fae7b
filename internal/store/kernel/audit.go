package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/store/engine"
)

// This file writes the audit log: one row per change, in the transaction of the change, in one
// hash chain per tenant. A change locks the head of the chain as its last step, so changes of a
// tenant wait for each other only while they commit. Appends are not audited and never lock the
// head.

// Fields maps the names of a resource's fields to the values that the audit log shows.
type Fields map[string]any

// maxAuditedBytes is the size up to which the audit log stores the JSON of a field. For longer
// JSON it stores the length and the SHA-256.
const maxAuditedBytes = 4 << 10

// An auditRecord is an audit row that the transaction will write.
type auditRecord struct {
	action, subject string
	detail          []byte
	silent          bool // causes no event
}

// Record adds an audit record about subject, the identifier of a resource. before holds its fields
// before the change, nil if the change creates it; after holds them after the change, nil if the
// change deletes it. If both are set, the record contains only the fields that differ.
func (tx *Mutation) Record(action, subject string, before, after Fields) {
	if before != nil && after != nil {
		changed := func(a, b Fields) Fields {
			a = maps.Clone(a)
			maps.DeleteFunc(a, func(name string, value any) bool {
				other, ok := b[name]
				return ok && reflect.DeepEqual(value, other)
			})
			return a
		}
		before, after = changed(before, after), changed(after, before)
	}
	detail := map[string]any{}
	if before != nil {
		detail["before"] = AuditValues(before)
	}
	if after != nil {
		detail["after"] = AuditValues(after)
	}
	tx.RecordDetail(action, subject, detail)
}

// RecordDetail is Record with an arbitrary detail. detail must contain no secrets and no payloads.
func (tx *Mutation) RecordDetail(action, subject string, detail map[string]any) {
	b, err := json.Marshal(detail, json.Deterministic(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		tx.err = fmt.Errorf("audit %s: %w", action, err)
		return
	}
	tx.records = append(tx.records, auditRecord{action: action, subject: subject, detail: b})
}

// RecordSilently is RecordDetail for a record that causes no event, because another record with the same
// action does.
func (tx *Mutation) RecordSilently(action, subject string, detail map[string]any) {
	n := len(tx.records)
	tx.RecordDetail(action, subject, detail)
	if len(tx.records) > n { // the detail was encoded
		tx.records[n].silent = true
	}
}

// causesEvent reports whether one of the records causes an event.
func (tx *Mutation) causesEvent() bool {
	return slices.ContainsFunc(tx.records, func(a auditRecord) bool { return a.causesEvent() })
}

func (a *auditRecord) causesEvent() bool { return !a.silent && atrium.EventOf(a.action) != "" }

// AuditValues returns fields as the audit log stores them: a value with more than maxAuditedBytes
// of JSON becomes its length and SHA-256.
func AuditValues(all Fields) map[string]any {
	values := make(map[string]any, len(all))
	for name, value := range all {
		b, err := json.Marshal(value, json.Deterministic(true), jsontext.AllowDuplicateNames(true))
		switch {
		case err != nil:
			values[name] = nil // the value is not valid JSON
		case len(b) > maxAuditedBytes:
			sum := sha256.Sum256(b)
			values[name] = map[string]any{"bytes": len(b), "sha256": hex.EncodeToString(sum[:])}
		default:
			values[name] = jsontext.Value(b)
		}
	}
	return values
}

// RawJSON returns b as a value for Fields, or nil if b is nil.
func RawJSON(b []byte) any {
	if b == nil {
		return nil
	}
	return jsontext.Value(b)
}

// AuditColumns lists the columns of an audit row in the order in which ScanAudit reads them.
const AuditColumns = "number, at, actor, action, subject, request_id, detail, salt, detail_hash, hash"

// ScanAudit reads AuditColumns, starting at column 0.
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

var updateAuditHeads = engine.NewBatch(`UPDATE audit_heads SET number = batch.number, hash = batch.hash
	FROM batch WHERE audit_heads.tenant_id = batch.tenant_id`, "tenant_id bytea", "number bigint", "hash bytea")

// writeAudit appends the records of changes of one tenant to its chain, and stores the events that they
// cause. On a database server it takes one round trip: the inserts are sent with the commit. events reports
// whether it has stored events.
func writeAudit(tx engine.Tx, changes ...*Mutation) (events bool, err error) {
	if !slices.ContainsFunc(changes, func(m *Mutation) bool { return len(m.records) > 0 }) {
		return false, nil
	}
	id := changes[0].Change.TenantID
	tenant := IDArg(id)
	if id != atrium.OperatorChain && slices.ContainsFunc(changes, (*Mutation).causesEvent) {
		if err := PipelineEventSwitches(tx, []atrium.TenantID{id}, func(atrium.TenantID) { events = true }); err != nil {
			return false, err
		}
	}
	var number int64
	var previous []byte
	for found := false; !found; { // a tenant has no head before its first row
		if err := tx.Lock("SELECT number, hash FROM audit_heads WHERE tenant_id = $1", engine.Args{tenant}, func(r engine.Row) error {
			found, number, previous = true, r.Int(0), r.Bytes(1)
			return nil
		}); err != nil {
			return false, err
		}
		if found {
			break
		}
		if _, err := tx.Exec("INSERT INTO audit_heads (tenant_id, number, hash) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
			tenant, int64(0), []byte{}); err != nil {
			return false, err
		}
	}
	var rows []engine.Args
	var refs []EventRef
	var at atrium.Time
	for _, m := range changes {
		at = max(at, m.At)
		for _, a := range m.records {
			number++
			if a.causesEvent() {
				refs = append(refs, EventRef{Kind: atrium.EventKeyAudit, Number: number})
			}
			row := atrium.AuditRow{
				Number: number, At: m.At, Actor: m.Change.Actor, Action: a.action, Subject: a.subject,
				RequestID: m.Change.RequestID, Detail: a.detail,
			}
			row.Seal(id, previous)
			previous = row.Hash
			rows = append(rows, engine.Args{
				tenant, row.Number, int64(row.At), row.Actor, row.Action, row.Subject, row.RequestID,
				row.Detail, row.Salt, row.DetailHash, row.Hash,
			})
		}
	}
	if err := tx.PipelineExec(insertAudit, rows); err != nil {
		return false, err
	}
	if events {
		if err := WriteOutbox(tx, TenantEvents{id, at, refs}); err != nil {
			return false, err
		}
	}
	return events, tx.PipelineExec(updateAuditHeads, []engine.Args{{tenant, number, previous}})
}

// Redact deletes the details of all committed audit rows about a subject. The chain stays valid
// because it covers hashes of the details. The caller must also record the redaction, either under
// the same subject or with the subject in the member "redacted" of a detail: a verifier accepts
// missing details only with such a record. Redact keeps these records. An account that was erased,
// imported and erased again therefore has two.
func (tx *Mutation) Redact(subject string) error {
	_, err := tx.Exec("UPDATE audit SET detail = NULL, salt = NULL WHERE tenant_id = $1 AND subject = $2 AND action NOT IN ($3, $4, $5)",
		IDArg(tx.Change.TenantID), subject, atrium.ActionEraseAccount, atrium.ActionDeleteProspect, atrium.ActionErasureRedact)
	return err
}
