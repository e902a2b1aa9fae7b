// Package auditlog verifies the hash chain of a tenant's audit log, from any source, and reads and
// writes its rows as NDJSON.
//
// A [Head] that is stored elsewhere reveals all rows that were altered, deleted or forged since,
// even by someone with access to the database who resealed the chain. Without one, anyone who can
// write the database can also rewrite the whole chain.
package auditlog

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A Head identifies the last row of a chain at some time. Number 0 stands for an empty chain.
type Head struct {
	Number int64
	Hash   []byte
}

// String returns the format of ParseHead: the number, a colon and the hash in hexadecimal.
func (h Head) String() string { return fmt.Sprintf("%d:%x", h.Number, h.Hash) }

// ParseHead parses the format of Head.String. It rejects the head of an empty chain.
func ParseHead(text string) (Head, bool) {
	digits, hash, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !ok || number == 0 {
		return Head{}, false
	}
	b, err := hex.DecodeString(hash)
	return Head{int64(number), b}, err == nil && len(b) == hashLen
}

const hashLen = 32

// A Flaw is a kind of fault.
type Flaw string

// The flaws, and the row to which Fault.Number refers.
const (
	Altered    Flaw = "altered"    // the row does not match its seal, or belongs to another position
	Missing    Flaw = "missing"    // the row is missing, but later rows exist
	Misplaced  Flaw = "misplaced"  // the row is duplicated, out of order, or before row 1
	Cut        Flaw = "cut"        // the rows after this one were deleted
	OtherHead  Flaw = "other_head" // the row does not match a head
	Unrecorded Flaw = "unrecorded" // the row's detail was removed, and no later row says so
	Downgraded Flaw = "downgraded" // the row's seal has an older version than the previous row's
)

// A Fault is the first fault of a chain.
type Fault struct {
	Flaw   Flaw
	Number int64 // of the row; 0 for the beginning of the chain
}

// String describes the fault.
func (f Fault) String() string {
	switch f.Flaw {
	case Altered:
		return fmt.Sprintf("row %d was altered", f.Number)
	case Missing:
		return fmt.Sprintf("row %d is missing", f.Number)
	case Misplaced:
		if f.Number < 1 {
			return fmt.Sprintf("row %d does not belong to the chain, which begins at row 1", f.Number)
		}
		return fmt.Sprintf("row %d is duplicated or out of order", f.Number)
	case Cut:
		return fmt.Sprintf("the rows after row %d were deleted", f.Number)
	case Downgraded:
		return fmt.Sprintf("row %d has a seal of an older version than the row before it", f.Number)
	case OtherHead:
		return fmt.Sprintf("the head at row %d does not match the chain", f.Number)
	default:
		return fmt.Sprintf("row %d was redacted, and no later row says that it was", f.Number)
	}
}

// A Report is the result of a verification.
type Report struct {
	First    int64 // number of the first row verified; 0 for none
	Head     Head  // the last valid row
	Redacted int64 // number of redacted rows
	Fault    *Fault
}

// A Verifier verifies the rows of one chain in order. It keeps no rows, only the subjects of
// redacted rows that no later row has explained yet.
type Verifier struct {
	tenant   atrium.TenantID
	known    *Head // an earlier head that the chain must contain; nil for none
	report   Report
	version  int              // seal version of the last row; 0 before the first row
	redacted map[string]int64 // the first redacted row of each unexplained subject
}

// NewVerifier returns a Verifier for the chain of a tenant. known is an earlier head or nil.
func NewVerifier(tenant atrium.TenantID, known *Head) *Verifier {
	return &Verifier{tenant: tenant, known: known, redacted: map[string]int64{}}
}

// Begin starts the verification after a head. Call it before Add, if at all.
func (v *Verifier) Begin(head Head) { v.report.Head = head }

// Add verifies the next row and reports whether the chain is valid so far.
func (v *Verifier) Add(row *atrium.AuditRow) bool {
	r := &v.report
	if r.Fault != nil {
		return false
	}
	next, version := r.Head.Number+1, row.SealVersion(v.tenant, r.Head.Hash)
	switch {
	case row.Number < 1, row.Number < next: // next overflows if a known head has the highest number
		r.Fault = &Fault{Misplaced, row.Number}
	case row.Number > next:
		r.Fault = &Fault{Missing, next}
	case version == 0:
		r.Fault = &Fault{Altered, row.Number}
	case version < v.version && !v.covered(row.Number):
		r.Fault = &Fault{Downgraded, row.Number}
	case v.known != nil && v.known.Number == row.Number && !bytes.Equal(v.known.Hash, row.Hash):
		r.Fault = &Fault{OtherHead, row.Number}
	default:
		if r.First == 0 {
			r.First = row.Number
		}
		r.Head = Head{row.Number, row.Hash}
		v.version = version
		v.explain(row)
	}
	return r.Fault == nil
}

// covered reports whether the known head covers a row: the row already had its seal when that head
// was stored.
func (v *Verifier) covered(number int64) bool { return v.known != nil && number <= v.known.Number }

// explain records a redacted row, or removes the subjects that the row's change has redacted.
func (v *Verifier) explain(row *atrium.AuditRow) {
	if row.Redacted() {
		v.report.Redacted++
		if _, ok := v.redacted[row.Subject]; !ok {
			v.redacted[row.Subject] = row.Number
		}
		return
	}
	if len(v.redacted) == 0 {
		return
	}
	for _, subject := range redactedBy(row) {
		delete(v.redacted, subject)
	}
}

// redactedBy returns the subjects whose earlier rows the row's change may have redacted. Erasing an
// account redacts accounts and moves; erasing a person redacts moves; deleting a prospect redacts that
// prospect. Atrium never redacts other subjects, such as keys.
func redactedBy(row *atrium.AuditRow) []string {
	switch row.Action {
	case atrium.ActionDeleteProspect:
		return ofKinds([]string{row.Subject}, atrium.ProspectID("").Prefix())
	case atrium.ActionEraseAccount, atrium.ActionErasureRedact:
		var detail struct {
			Redacted []string `json:"redacted"`
		}
		if err := json.Unmarshal(row.Detail, &detail); err != nil {
			detail.Redacted = nil // use no part of a malformed array
		}
		return ofKinds(append(detail.Redacted, row.Subject), atrium.AccountID("").Prefix(), atrium.MoveID("").Prefix())
	}
	return nil
}

// ofKinds returns the subjects with one of the prefixes.
func ofKinds(subjects []string, prefixes ...string) []string {
	return slices.DeleteFunc(subjects, func(subject string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(subject, prefix) })
	})
}

// Explained reports whether later rows explain all redacted ones.
func (v *Verifier) Explained() bool { return len(v.redacted) == 0 }

// End runs the checks that need all rows. stored is the head that is stored next to the chain, nil
// if there is none.
func (v *Verifier) End(stored *Head) Report {
	r := &v.report
	if r.Fault != nil {
		return *r
	}
	last := r.Head
	first := last.Number + 1
	for _, number := range v.redacted {
		first = min(first, number)
	}
	switch {
	case stored != nil && stored.Number > last.Number, v.known != nil && v.known.Number > last.Number:
		r.Fault = &Fault{Cut, last.Number}
	case stored != nil && (stored.Number < last.Number || !bytes.Equal(stored.Hash, last.Hash)):
		r.Fault = &Fault{OtherHead, stored.Number}
	case first <= last.Number:
		r.Fault = &Fault{Unrecorded, first}
	}
	return *r
}
