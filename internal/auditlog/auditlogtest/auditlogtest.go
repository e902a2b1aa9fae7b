// Package auditlogtest seals audit rows in the old format, version 1, which databases and exports
// still contain.
package auditlogtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"atrium"
)

// Seal1 is the version 1 of atrium.AuditRow.Seal. It uses the salt of the row, which may have any
// length.
func Seal1(row *atrium.AuditRow, tenant atrium.TenantID, previous []byte) {
	detail := sha256.Sum256(append(bytes.Clone(row.Salt), row.Detail...))
	row.DetailHash = detail[:]
	b := []byte{1}
	for _, part := range [][]byte{
		previous, []byte(tenant),
		binary.BigEndian.AppendUint64(nil, uint64(row.Number)), binary.BigEndian.AppendUint64(nil, uint64(row.At)),
		[]byte(row.Actor), []byte(row.Action), []byte(row.Subject), []byte(row.RequestID), row.DetailHash,
	} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	hash := sha256.Sum256(b)
	row.Hash = hash[:]
}
