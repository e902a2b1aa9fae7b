package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Snapshot writes into the directory dst what a power cut now would have left
// in the worst case: the durable names, each file with nothing but what its
// last completed sync made durable. It is one moment for all files, also while
// connections write. The directory dst is created if it is missing and must be
// empty: a file left over from another snapshot would be taken for a WAL.
func (fs *FS) Snapshot(dst string) error {
	return fs.snapshot(dst, nil)
}

// SnapshotSubset is Snapshot for a disk that had written some of the pending
// changes of its own accord: a random choice of them, some torn between
// sectors, and a random choice of the pending names. The same seed makes the
// same choice for the same state.
func (fs *FS) SnapshotSubset(dst string, seed uint64) error {
	return fs.snapshot(dst, rand.New(rand.NewPCG(seed, 0)))
}

func (fs *FS) snapshot(dst string, rng *rand.Rand) error {
	if err := os.MkdirAll(dst, 0o700); err != nil {
		return fmt.Errorf("powercut: create snapshot: %w", err)
	}
	entries, err := os.ReadDir(dst)
	if err != nil {
		return fmt.Errorf("powercut: create snapshot: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("powercut: snapshot directory %s is not empty", dst)
	}

	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return fmt.Errorf("powercut: snapshot of closed VFS %s", fs.name)
	}
	names := maps.Clone(fs.durable)
	if rng != nil {
		names = fs.chooseNames(rng)
	}
	// In the order of the names, so that a seed decides the outcome.
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := names[name].copyDurable(filepath.Join(dst, name), rng); err != nil {
			return err
		}
	}
	return nil
}

// chooseNames decides for each name whose creation or deletion is pending
// whether that reached the disk.
func (fs *FS) chooseNames(rng *rand.Rand) map[string]*file {
	all := maps.Clone(fs.live)
	maps.Copy(all, fs.durable)
	names := map[string]*file{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := fs.durable[name]
		if now := fs.live[name]; now != f && rng.IntN(2) == 0 {
			f = now
		}
		if f != nil {
			names[name] = f
		}
	}
	return names
}
