package sqlite

import "atrium/internal/store/engine"

// SetSyncDirectory replaces the function that syncs directories until restore is called.
func SetSyncDirectory(sync func(path string) error) (restore func()) {
	before := syncDirectory
	syncDirectory = sync
	return func() { syncDirectory = before }
}

// WaitingToWrite returns how many writes of an embedded database wait for the write lock.
func WaitingToWrite(db engine.DB) int {
	l := &db.(*database).writeLock
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, q := range l.queues {
		n += len(q.waiters)
	}
	return n
}
