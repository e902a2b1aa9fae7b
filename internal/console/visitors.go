package console

import (
	"crypto/sha256"
	"net/http"
	"sync"

	"atrium/internal/rest"
)

// maxVisitors is the maximum number of sessions that a server remembers.
const maxVisitors = 10_000

// visitors are the tokens of sessions that were valid when they were last looked up. Their users are served although
// others at their address have sent too many requests. The zero value has none. It is safe for concurrent use.
type visitors struct {
	mu     sync.Mutex
	hashes map[[sha256.Size]byte]struct{} // guarded by mu; at most maxVisitors
}

// remember records that the session of a token is valid.
func (v *visitors) remember(token string) {
	hash := sha256.Sum256([]byte(token))
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.hashes[hash]; ok {
		return
	}
	if v.hashes == nil {
		v.hashes = map[[sha256.Size]byte]struct{}{}
	}
	if len(v.hashes) >= maxVisitors {
		for other := range v.hashes { // any
			delete(v.hashes, other)
			break
		}
	}
	v.hashes[hash] = struct{}{}
}

// forget records that the session of a token is not valid.
func (v *visitors) forget(token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.hashes, sha256.Sum256([]byte(token)))
}

func (v *visitors) know(token string) bool {
	if token == "" {
		return false
	}
	hash := sha256.Sum256([]byte(token)) // not while others wait
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.hashes[hash]
	return ok
}

// Visitors returns how the requests of browsers are limited: see rest.API.AnonymousExcept.
func (c *Console) Visitors() rest.Visitors {
	return rest.Visitors{
		Known:  func(r *http.Request) bool { return c.visitors.know(c.sessionToken(r)) },
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) { showError(w, frame{}, err) },
	}
}
