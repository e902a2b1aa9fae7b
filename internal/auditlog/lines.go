package auditlog

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// maxLine bounds a line, in bytes.
const maxLine = 32 << 20

// A line is a row as it is exported, with all that its verification needs. The detail
// comes last, byte for byte as it was hashed.
type line struct {
	Number     int64          `json:"number"`
	At         atrium.Time    `json:"at"`
	Actor      string         `json:"actor"`
	Action     string         `json:"action"`
	Subject    string         `json:"subject"`
	RequestID  string         `json:"requestId,omitzero"`
	Redacted   bool           `json:"redacted,omitzero"`
	Salt       *string        `json:"salt,omitzero"`
	DetailHash string         `json:"detailHash"`
	Hash       string         `json:"hash"`
	Detail     jsontext.Value `json:"detail,omitzero"`
}

// AppendLine appends a row as a line, with its line break.
func AppendLine(b []byte, row *atrium.AuditRow) ([]byte, error) {
	l := line{
		Number: row.Number, At: row.At, Actor: row.Actor, Action: row.Action, Subject: row.Subject, RequestID: row.RequestID,
		Redacted: row.Redacted(), DetailHash: hex.EncodeToString(row.DetailHash), Hash: hex.EncodeToString(row.Hash),
	}
	if row.Salt != nil {
		l.Salt = new(hex.EncodeToString(row.Salt))
	}
	head, err := json.Marshal(l)
	if err != nil {
		return b, fmt.Errorf("row %d: %w", row.Number, err)
	}
	b = append(b, head...)
	if row.Detail != nil {
		if !jsontext.Value(row.Detail).IsValid(jsontext.AllowDuplicateNames(true)) || bytes.ContainsAny(row.Detail, "\r\n") {
			return b, fmt.Errorf("row %d: the detail is not JSON that was written here", row.Number)
		}
		b = append(b[:len(b)-1], `,"detail":`...) // in the place of the closing brace
		b = append(append(b, row.Detail...), '}')
	}
	return append(b, '\n'), nil
}

// ParseLine reads what AppendLine has written. A member that is there twice is refused:
// other readers of the line may take the one that was not verified. In the detail, which
// is verified byte for byte, it is not looked for.
func ParseLine(b []byte) (*atrium.AuditRow, error) {
	var l line
	if err := json.Unmarshal(b, &l, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	if err := checkNames(b); err != nil {
		return nil, err
	}
	row := &atrium.AuditRow{
		Number: l.Number, At: l.At, Actor: l.Actor, Action: l.Action, Subject: l.Subject, RequestID: l.RequestID, Detail: l.Detail,
	}
	var err error
	if row.DetailHash, err = hex.DecodeString(l.DetailHash); err != nil {
		return nil, err
	}
	if row.Hash, err = hex.DecodeString(l.Hash); err != nil {
		return nil, err
	}
	if l.Salt != nil {
		if row.Salt, err = hex.DecodeString(*l.Salt); err != nil {
			return nil, err
		}
	}
	if l.Redacted != row.Redacted() { // as other readers would believe
		return nil, errors.New("redacted must be true exactly when there is neither salt nor detail")
	}
	return row, nil
}

// checkNames returns an error if an object, which is valid JSON, has a member twice.
func checkNames(b []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if seen[name] {
			return fmt.Errorf("%s is there twice", name) // it is one of a line's: no other is taken
		}
		seen[name] = true
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyLines verifies exported rows of a tenant, all from the first, or from the one
// behind the known head. The error says which line cannot be read.
func VerifyLines(in io.Reader, tenant atrium.TenantID, known *Head) (Report, error) {
	v := NewVerifier(tenant, known)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		row, err := ParseLine(lines.Bytes())
		if err != nil {
			return Report{}, fmt.Errorf("line %d: %w", n, err)
		}
		if n == 1 && known != nil && row.Number == known.Number+1 {
			v.Begin(*known)
		}
		if !v.Add(row) {
			break
		}
	}
	if err := lines.Err(); err != nil {
		return Report{}, fmt.Errorf("read the rows: %w", err)
	}
	return v.End(nil), nil
}
