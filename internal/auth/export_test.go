package auth

// What tests see of the package's inside.

const MaxCached = maxCached

var Checksum = checksum

func (a *Authenticator) Cached() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.known)
}
