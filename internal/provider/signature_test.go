package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"testing"
)

// A countedHash adds what is written to a number.
type countedHash struct {
	hash.Hash
	written *int
}

func (h countedHash) Write(b []byte) (int, error) {
	*h.written += len(b)
	return h.Hash.Write(b)
}

func TestManySignaturesCostAsMuchAsOne(t *testing.T) {
	written := 0
	s := signature{func() hash.Hash { return countedHash{sha256.New(), &written} }, hex.DecodeString}
	body := make([]byte, 1<<20)
	wrong := strings.Repeat("0", 2*sha256.Size)
	var texts []string
	for range signatures {
		texts = append(texts, wrong)
	}
	if reason := s.checkAny(texts, []byte("secret"), body); reason != reasonMismatch || written > len(body)+1000 {
		t.Errorf("%q after hashing %d bytes for a body of %d", reason, written, len(body))
	}
	written = 0
	if reason := s.checkAny([]string{"", "xyz", wrong[1:]}, []byte("secret"), body); reason != reasonMalformed || written > 1000 {
		t.Errorf("malformed: %q after hashing %d bytes", reason, written)
	}
}
