package limit

import "encoding/binary"

// Constants of TLS records (RFC 8446, section 5.1).
const (
	recordHeaderBytes = 5 // the type, the version and the length
	recordLengthAt    = 3
)

// usualRecord is the size from which a TLS record is not small. A client sends a request in one or two
// records, and a large body in larger ones.
const usualRecord = 1 << 10

// A recordScanner finds the TLS records in what a client sends. It counts those without data, too, such as
// KeyUpdate (RFC 8446, section 4.6.3), of which crypto/tls allows any number between data.
type recordScanner struct {
	header [recordHeaderBytes]byte
	have   int // bytes in header
	skip   int // bytes of the record that are still to come
}

// small returns how many small records begin in b.
func (s *recordScanner) small(b []byte) (n int) {
	for len(b) > 0 {
		if s.skip > 0 {
			skipped := min(s.skip, len(b))
			s.skip, b = s.skip-skipped, b[skipped:]
			continue
		}
		copied := copy(s.header[s.have:], b)
		s.have, b = s.have+copied, b[copied:]
		if s.have == recordHeaderBytes {
			s.have, s.skip = 0, int(binary.BigEndian.Uint16(s.header[recordLengthAt:]))
			if s.skip < usualRecord {
				n++
			}
		}
	}
	return n
}
