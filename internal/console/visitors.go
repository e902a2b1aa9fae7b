package console

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

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

// Visitors returns how the requests of browsers are limited: see rest.API.AnonymousExcept. The files that pages load are
// served always, also to the page that says that there were too many requests.
func (c *Console) Visitors() rest.Visitors {
	files := static()
	return rest.Visitors{
		Known: func(r *http.Request) bool {
			_, loaded := files[r.URL.Path]
			return loaded || c.visitors.know(c.sessionToken(r))
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
			setHeaders(w.Header())
			if e, ok := asError(err); ok {
				e.Detail = "Too many requests from your address came from browsers that are not signed in. " + tryAgain(e.Retry)
			}
			showError(w, err)
		},
	}
}

// tryAgain says when to try again.
func tryAgain(after time.Duration) string {
	if minutes := int64(math.Ceil(after.Minutes())); minutes > 1 {
		return fmt.Sprintf("Try again in %d minutes.", minutes)
	}
	return "Try again in a minute."
}
