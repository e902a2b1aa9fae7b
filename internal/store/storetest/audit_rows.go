package storetest

import (
	"encoding/binary"
	"strconv"

	"atrium"
	"atrium/internal/store/engine"
)

// auditRows returns the rows of the audit log about a subject, the oldest first.
func (e *env) auditRows(t tb, subject string) (rows []atrium.AuditRow, err error) {
	t.Helper()
	err = e.db.Query(t.Context(), "SELECT actor, action, detail FROM audit WHERE tenant_id = $1 AND subject = $2 ORDER BY number",
		engine.Args{stored(string(e.tenant)), subject}, func(r engine.Row) error {
			rows = append(rows, atrium.AuditRow{Actor: r.Text(0), Action: r.Text(1), Detail: r.Bytes(2)})
			return nil
		})
	return rows, err
}

// stored returns an identifier in the form in which the database has it.
func stored(id string) (b []byte) {
	suffix := id[len(id)-atrium.SuffixLen:]
	number := func(digits string) uint64 {
		n, _ := strconv.ParseUint(digits, 36, 64)
		return n
	}
	b = binary.BigEndian.AppendUint16(b, uint16(number(suffix[:2])))
	b = binary.BigEndian.AppendUint64(b, number(suffix[2:14]))
	return binary.BigEndian.AppendUint64(b, number(suffix[14:]))
}
