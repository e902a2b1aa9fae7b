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

// maxLine is the maximum length of a line in bytes.
const maxLine = 32 << 20

// A line is an exported row, with everything that its verification needs. The detail comes last,
// byte for byte as it was hashed.
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

// AppendLine appends a row as a line, including the line break.
func AppendLine(b []byte, row *atrium.AuditRow) ([]byte, error) {
	l := line{
		Number: row.Number, At: row.At, Actor: row.Actor, Action: row.Action, Subject: row.Subject,
		RequestID: row.RequestID, Redacted: row.Redacted(),
		DetailHash: hex.EncodeToString(row.DetailHash), Hash: hex.EncodeToString(row.Hash),
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
			return b, fmt.Errorf("row %d: the detail is not JSON on one line", row.Number)
		}
		b = append(b[:len(b)-1], `,"detail":`...) // replaces the closing brace
		b = append(append(b, row.Detail...), '}')
	}
	return append(b, '\n'), nil
}

// ParseLine parses a line that AppendLine has written. It rejects duplicate members, because other
// readers of the line may use the one that was not verified. It does not check the detail for
// duplicates: the detail is verified byte for byte.
func ParseLine(b []byte) (*atrium.AuditRow, error) {
	var l line
	if err := json.Unmarshal(b, &l, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	if err := checkNames(b); err != nil {
		return nil, err
	}
	row := &atrium.AuditRow{
		Number: l.Number, At: l.At, Actor: l.Actor, Action: l.Action, Subject: l.Subject,
		RequestID: l.RequestID, Detail: l.Detail,
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
	if l.Redacted != row.Redacted() { // other readers would rely on the member
		return nil, errors.New("redacted must be true if and only if there is neither salt nor detail")
	}
	return row, nil
}

// checkNames returns an error if b, a valid JSON object, has duplicate members.
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
			return fmt.Errorf("duplicate member %s", name) // one of line's members: safe to print
		}
		seen[name] = true
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyLines verifies exported rows of a tenant, which begin at row 1, or after the known head.
// Parse errors name the line.
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
