// Package auditlog verifies the chain of a tenant's audit log, wherever its rows come
// from, and reads and writes them as NDJSON.
//
// Who holds a [Head] that was kept elsewhere finds with it what was altered, taken
// away or made up since, even by somebody with the database who sealed the chain
// anew. Without one, whoever can write the database can also rewrite all of a chain.
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

// A Head names the last row that a chain had at some time; number 0 for none.
type Head struct {
	Number int64
	Hash   []byte
}

// String returns the form that ParseHead reads: the number, a colon and the hash in
// hexadecimal digits.
func (h Head) String() string { return fmt.Sprintf("%d:%x", h.Number, h.Hash) }

// ParseHead reads what Head.String writes of a head that has a row.
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

// A Flaw is what is wrong with a chain at a row.
type Flaw string

// The flaws, each with the row that Fault.Number is.
const (
	Altered    Flaw = "altered"    // the row is not what was sealed, or not the one that belongs there
	Missing    Flaw = "missing"    // there are rows behind it, and it is not there
	Misplaced  Flaw = "misplaced"  // it is there again, out of order, or before row 1
	Cut        Flaw = "cut"        // it is the last one, and there were others behind it
	OtherHead  Flaw = "other_head" // it is not the one that a head names
	Unrecorded Flaw = "unrecorded" // its detail was taken out, and no later row says so
	Downgraded Flaw = "downgraded" // its seal has an older version than the one before it
)

// A Fault is the first thing wrong with a chain.
type Fault struct {
	Flaw   Flaw
	Number int64 // of the row; 0 for the beginning
}

// String says what is wrong.
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
		return fmt.Sprintf("row %d is there twice or out of order", f.Number)
	case Cut:
		return fmt.Sprintf("what came after row %d was cut off", f.Number)
	case Downgraded:
		return fmt.Sprintf("row %d has a seal of an older version than the row before it", f.Number)
	case OtherHead:
		return fmt.Sprintf("the head at row %d is not that of the chain", f.Number)
	default:
		return fmt.Sprintf("row %d was redacted, and no later row says that it was", f.Number)
	}
}

// A Report is what a verification has found.
type Report struct {
	First    int64 // the number of the first row that was looked at; 0 for none
	Head     Head  // of the last row that was found to be right
	Redacted int64 // how many rows have no detail any more
	Fault    *Fault
}

// A Verifier takes the rows of one chain in their order. It holds no row, and of
// those that were redacted the subjects that no later row has explained yet.
type Verifier struct {
	tenant   atrium.TenantID
	known    *Head // an earlier head that the chain must have; nil for none
	report   Report
	version  int              // of the last row's seal; 0 for none yet
	redacted map[string]int64 // the first redacted row of each subject that is not explained
}

// NewVerifier returns a Verifier for the chain of a tenant. known is an earlier head,
// or nil.
func NewVerifier(tenant atrium.TenantID, known *Head) *Verifier {
	return &Verifier{tenant: tenant, known: known, redacted: map[string]int64{}}
}

// Begin makes the row behind a head the first one to be looked at. It is called
// before Add, if at all.
func (v *Verifier) Begin(behind Head) { v.report.Head = behind }

// Add looks at the next row and reports whether the chain is right so far.
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

// covered reports whether the known head covers a row: the row had its seal when that
// head was written down.
func (v *Verifier) covered(number int64) bool { return v.known != nil && number <= v.known.Number }

// explain notes a redacted row, or removes the subjects that a row's change redacted.
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

// redactedBy returns the subjects whose earlier rows the row's change may have redacted.
// Erasing an account redacts accounts and moves, deleting a prospect redacts that
// prospect. Any other subject, such as a key, is left out: Atrium never redacts it.
func redactedBy(row *atrium.AuditRow) []string {
	switch row.Action {
	case atrium.ActionDeleteProspect:
		return ofKinds([]string{row.Subject}, atrium.ProspectID("").Prefix())
	case atrium.ActionEraseAccount:
		var detail struct {
			Redacted []string `json:"redacted"`
		}
		if err := json.Unmarshal(row.Detail, &detail); err != nil {
			detail.Redacted = nil // a malformed array names nothing, not a part of it
		}
		return ofKinds(append(detail.Redacted, row.Subject), atrium.AccountID("").Prefix(), atrium.MoveID("").Prefix())
	}
	return nil
}

// ofKinds returns the subjects that begin with one of the prefixes.
func ofKinds(subjects []string, prefixes ...string) []string {
	return slices.DeleteFunc(subjects, func(subject string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(subject, prefix) })
	})
}

// Explained reports whether a later row says of every redacted one that it was.
func (v *Verifier) Explained() bool { return len(v.redacted) == 0 }

// End looks at what can be told behind the last row alone. stored is the head that is
// kept beside the chain, nil where there is none.
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
