package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"atrium"
)

// A CursorKey seals and opens cursors: positions in a list that clients cannot forge.
type CursorKey []byte

// cursorVersion is the first byte of every cursor.
const cursorVersion = 1

const macLen = 16

// strictBase64 rejects non-canonical encodings, except that it ignores line breaks.
var strictBase64 = base64.RawURLEncoding.Strict()

// Seal returns a cursor for a position. It opens only with the same binding, which has
// everything that the position depends on: tenant, route and filters.
func (k CursorKey) Seal(position []byte, binding ...string) string {
	b := append([]byte{cursorVersion}, position...)
	return strictBase64.EncodeToString(append(b, k.mac(b, binding)...))
}

// Open returns the position in a cursor, or false if Seal did not return it for the binding.
func (k CursorKey) Open(cursor string, binding ...string) ([]byte, bool) {
	b, err := strictBase64.DecodeString(cursor)
	if err != nil || strings.ContainsAny(cursor, "\r\n") || len(b) < 1+macLen || b[0] != cursorVersion {
		return nil, false
	}
	body, mac := b[:len(b)-macLen], b[len(b)-macLen:]
	if subtle.ConstantTimeCompare(mac, k.mac(body, binding)) != 1 {
		return nil, false
	}
	return body[1:], true
}

// The cursor of an atrium.Position has its number in eight bytes, its identifier and its text. A position that is
// only a number has neither.
const (
	numberLen   = 8
	positionLen = numberLen + atrium.SuffixLen
)

// SealPosition is Seal for a position of a list.
func (k CursorKey) SealPosition(p *atrium.Position, binding ...string) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, positionLen+len(p.Text)), uint64(p.Key))
	return k.Seal(append(append(b, p.ID...), p.Text...), binding...)
}

// OpenPosition returns the position in a cursor, or false if SealPosition did not
// return it for the binding.
func (k CursorKey) OpenPosition(cursor string, binding ...string) (*atrium.Position, bool) {
	b, ok := k.Open(cursor, binding...)
	if !ok || len(b) < positionLen && len(b) != numberLen {
		return nil, false
	}
	p := &atrium.Position{Key: int64(binary.BigEndian.Uint64(b))}
	if len(b) > numberLen {
		p.ID, p.Text = string(b[numberLen:positionLen]), string(b[positionLen:])
	}
	return p, true
}

// Cursor decodes the parameter cursor: a position that SealPosition sealed with the binding, or
// nil if it is missing.
func (q *Query) Cursor(k CursorKey, binding ...string) *atrium.Position {
	text, ok := q.Text("cursor")
	if !ok {
		return nil
	}
	p, ok := k.OpenPosition(text, binding...)
	if !ok {
		q.Fault("cursor", "is not a nextCursor of this list")
	}
	return p
}

// A List is one page of a list.
type List[T any] struct {
	Items      []T    `json:"items"`
	HasMore    bool   `json:"hasMore"`
	Limit      int    `json:"limit"`
	NextCursor string `json:"nextCursor,omitzero"`
}

// mac is an HMAC-SHA256 truncated to 128 bits (RFC 2104 section 5) over the binding,
// each part with its length, and the body.
func (k CursorKey) mac(body []byte, binding []string) []byte {
	h := hmac.New(sha256.New, k)
	var n [4]byte
	for _, part := range binding {
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	h.Write(body)
	return h.Sum(nil)[:macLen]
}
