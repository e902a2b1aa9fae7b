package sqlite

import "atrium/internal/store/engine"

// SetSyncDirectory replaces what syncs directories until the func that it returns is
// called.
func SetSyncDirectory(sync func(path string) error) (restore func()) {
	before := syncDirectory
	syncDirectory = sync
	return func() { syncDirectory = before }
}

// WaitingToWrite returns how many writes of an embedded database wait for their turn.
func WaitingToWrite(db engine.DB) int {
	t := &db.(*database).turn
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
