package powercut

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A fileModel is a file under random writes and resizes, with a model of it: the content at the
// last sync and, for each sector, every content since.
type fileModel struct {
	t       *testing.T
	dir     string
	rw      *os.File
	f       *file
	durable []byte
	sectors map[int64]map[string]bool // by offset; padded with zeros to full size
}

func newFileModel(t *testing.T) *fileModel {
	m := &fileModel{t: t, dir: t.TempDir()}
	var err error
	if m.rw, err = os.Create(filepath.Join(m.dir, "f")); err != nil {
		t.Fatal(err)
	}
	if m.f, err = openFile(m.dir, "f"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = m.rw.Close(), m.f.fd.Close() })
	m.sync()
	return m
}

func (m *fileModel) read() []byte {
	b, err := os.ReadFile(m.rw.Name())
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *fileModel) sync() {
	m.f.synced()
	m.durable = m.read()
	m.sectors = map[int64]map[string]bool{}
	m.see()
}

// see records the current content of each sector as one that may survive.
func (m *fileModel) see() {
	b := m.read()
	for off := int64(0); off < 32*sectorSize; off += sectorSize {
		s := make([]byte, sectorSize)
		if off < int64(len(b)) {
			copy(s, b[off:])
		}
		if m.sectors[off] == nil {
			m.sectors[off] = map[string]bool{}
		}
		m.sectors[off][string(s)] = true
	}
}

func (m *fileModel) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// step makes one random change. If aligned, writes cover whole sectors.
func (m *fileModel) step(rng *rand.Rand, aligned bool) {
	switch rng.IntN(8) {
	case 0:
		m.sync()
		return
	case 1:
		length := rng.Int64N(24 * sectorSize)
		if aligned {
			length -= length % sectorSize
		}
		c, err := m.f.beforeResize(length)
		m.must(err)
		m.must(m.rw.Truncate(length))
		m.must(m.f.done(c))
	default:
		off, data := rng.Int64N(20*sectorSize), make([]byte, 1+rng.IntN(4*sectorSize))
		if aligned {
			off -= off % sectorSize
			data = make([]byte, (1+rng.IntN(4))*sectorSize)
		}
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		c, err := m.f.beforeWrite(off, int64(len(data)))
		m.must(err)
		_, err = m.rw.WriteAt(data, off)
		m.must(err)
		m.must(m.f.done(c))
	}
	m.see()
}

func (m *fileModel) copyOf(rng *rand.Rand) []byte {
	path := filepath.Join(m.dir, "copy")
	m.must(m.f.copyDurable(path, rng))
	defer func() { _ = os.Remove(path) }()
	b, err := os.ReadFile(path)
	m.must(err)
	return b
}

func TestTheWorstCaseIsTheContentAtTheLastSync(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := newFileModel(t)
		for i := range 60 {
			m.step(rng, false)
			if got := m.copyOf(nil); !bytes.Equal(got, m.durable) {
				t.Fatalf("seed %d, step %d: the copy (%d bytes) is not the content at the last sync (%d bytes)",
					seed, i, len(got), len(m.durable))
			}
		}
	}
}

func TestASubsetHasOnlyWrittenSectors(t *testing.T) {
	differs, torn := false, false
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := newFileModel(t)
		for i := range 30 {
			m.step(rng, true)
			got := m.copyOf(rng)
			for off := 0; off < len(got); off += sectorSize {
				s := got[off:min(off+sectorSize, len(got))]
				zero := bytes.Count(s, []byte{0}) == len(s) // a hole
				if !zero && !m.sectors[int64(off)][string(s)] {
					t.Fatalf("seed %d, step %d: the sector at %d never had this content", seed, i, off)
				}
			}
			differs = differs || !bytes.Equal(got, m.durable)
			torn = torn || !bytes.Equal(got, m.durable) && !bytes.Equal(got, m.read())
		}
	}
	if !differs || !torn {
		t.Errorf("a copy differed from the worst case: %v; a copy was torn: %v; want both", differs, torn)
	}
}

func TestASubsetIsDeterminedByItsSeed(t *testing.T) {
	m := newFileModel(t)
	rng := rand.New(rand.NewPCG(7, 3))
	for range 5 {
		m.step(rng, false)
	}
	for seed := range uint64(10) {
		a := m.copyOf(rand.New(rand.NewPCG(seed, 0)))
		b := m.copyOf(rand.New(rand.NewPCG(seed, 0)))
		if !bytes.Equal(a, b) {
			t.Errorf("seed %d: two copies differ", seed)
		}
	}
}

// A write that failed halfway is undone as far as it got.
func TestAPartialWriteIsUndone(t *testing.T) {
	m := newFileModel(t)
	_, err := m.rw.WriteAt([]byte("0123456789"), 0)
	m.must(err)
	m.sync()
	c, err := m.f.beforeWrite(5, 100)
	m.must(err)
	_, err = m.rw.WriteAt([]byte("abcdefg"), 5)
	m.must(err)
	m.must(m.f.done(c))
	if got := m.copyOf(nil); string(got) != "0123456789" {
		t.Errorf("the worst case is %q", got)
	}
	if got := m.copyOf(rand.New(rand.NewPCG(1, 1))); len(got) > 12 {
		t.Errorf("the subset is %q, more than was ever written", got)
	}
}
