package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Snapshot writes to the directory dst the worst-case result of a power cut now: the durable names,
// and of each file only the content that its last completed sync made durable. It is atomic across
// files, even while connections write. dst is created if it does not exist, and must be empty:
// files of an earlier snapshot would be mistaken for a WAL.
func (fs *FS) Snapshot(dst string) error {
	return fs.snapshot(dst, nil)
}

// SnapshotSubset is Snapshot for a disk that has also written a random subset of the pending
// changes, some torn between sectors, and of the pending names. For the same state, the same seed
// selects the same subset.
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
	// The sorted order makes the result depend only on the seed.
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := names[name].copyDurable(filepath.Join(dst, name), rng); err != nil {
			return err
		}
	}
	return nil
}

// chooseNames decides for each pending creation or deletion of a name whether it reached the disk.
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
