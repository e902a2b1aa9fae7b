package engine

// SetSyncDirectory replaces what syncs directories until the func that it returns is
// called.
func SetSyncDirectory(sync func(path string) error) (restore func()) {
	before := syncDirectory
	syncDirectory = sync
	return func() { syncDirectory = before }
}
