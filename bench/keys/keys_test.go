package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"atrium/bench/workload"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
)

// Every layout that finds keys finds exactly those of existing entries, across restarts, with several processes and
// concurrent jobs, and if hashes of keys are equal. Each is compared with a map.
func TestLayoutsFindExactlyTheKeysOfExistingEntries(t *testing.T) {
	d, err := newDataset(t.Context(), filepath.Join(t.TempDir(), "keys"), 300, options{recent: 30, payload: 40})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range subjects {
		if s.tables == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if err := d.restore(); err != nil {
				t.Fatal(err)
			}
			newModel(t, d, s, uint64(i)).run(50)
		})
	}
}

// A model has the entries that exist, by key.
type model struct {
	*testing.T
	*dataset
	subject   subject
	random    *rand.Rand
	processes [2]*session
	ids       map[string][]byte
	keys      []string // of all entries that have ever existed
}

func newModel(t *testing.T, d *dataset, s subject, seed uint64) *model {
	m := &model{T: t, dataset: d, subject: s, random: rand.New(rand.NewPCG(seed, 1)), ids: map[string][]byte{}}
	for n := range d.size {
		e := d.entry(n)
		m.ids[e.key] = e.id
		m.keys = append(m.keys, e.key)
	}
	for i := range m.processes {
		m.start(i)
	}
	t.Cleanup(func() {
		for _, p := range m.processes {
			_ = p.Close()
		}
	})
	return m
}

// start starts a process. Few bits of the hashes are different.
func (m *model) start(process int) {
	db, err := sqlite.Open(m.file(), sqlite.Options{})
	if err != nil {
		m.Fatal(err)
	}
	o := &session{DB: db, layout: m.subject.open(m.dataset)}
	if l, ok := o.layout.(*layered); ok {
		if log, ok := l.recent.(*keyLog); ok {
			log.hash = func(key string) int64 { return hash64(key) & 15 }
		}
	}
	m.processes[process] = o
}

func (m *model) run(steps int) {
	for range steps {
		process := m.random.IntN(len(m.processes))
		o := m.processes[process]
		switch m.random.IntN(6) {
		case 0:
			if err := o.Close(); err != nil {
				m.Fatal(err)
			}
			m.start(process)
		case 1:
			m.job(o)
		case 2:
			m.erase(o)
		default:
			m.append(o)
		}
		m.check(m.processes[process])
	}
}

// job runs the job of a layout. Another process changes entries before the job deletes recent keys.
func (m *model) job(o *session) {
	l, ok := o.layout.(*layered)
	if !ok {
		return
	}
	pairs, err := l.recent.sorted(m.Context(), o)
	if err == nil && len(pairs) > 0 {
		err = l.old.absorb(m.Context(), o, pairs)
	}
	if err != nil {
		m.Fatal(err)
	}
	other := m.processes[m.random.IntN(len(m.processes))]
	m.erase(other)
	m.append(other)
	if err := l.recent.drop(m.Context(), o, pairs); err != nil {
		m.Fatal(err)
	}
	if left, err := l.recent.sorted(m.Context(), o); err != nil || len(left) > 60 { // two commits
		m.Fatalf("%d keys are left, %v", len(left), err)
	}
}

// anyKey returns a key that was used, often a recent one.
func (m *model) anyKey() string {
	from := 0
	if m.random.IntN(4) > 0 {
		from = max(len(m.keys)-40, 0)
	}
	return m.keys[from+m.random.IntN(len(m.keys)-from)]
}

// append adds new entries, some of them with keys of erased ones.
func (m *model) append(o *session) {
	batch := m.entries(1 + m.random.IntN(30))
	for _, e := range batch {
		if key := m.anyKey(); m.ids[key] == nil && !slices.ContainsFunc(batch, func(e *entry) bool { return e.key == key }) {
			e.key = key
		}
	}
	if _, err := m.dataset.append(m.Context(), m.subject, o, batch, len(batch)); err != nil {
		m.Fatal(err)
	}
	for _, e := range batch {
		m.ids[e.key] = e.id
		m.keys = append(m.keys, e.key)
	}
}

// erase deletes entries.
func (m *model) erase(o *session) {
	if err := o.Write(m.Context(), func(tx engine.Tx) error {
		for range 10 {
			key := m.anyKey()
			if _, err := tx.Exec("DELETE FROM entries WHERE tenant_id = $1 AND entry_id = $2", workload.PackedID(m.tenant), m.ids[key]); err != nil {
				return err
			}
			delete(m.ids, key)
		}
		return nil
	}); err != nil {
		m.Fatal(err)
	}
}

// check looks up all keys, and some that were never used.
func (m *model) check(o *session) {
	m.Helper()
	if err := o.Write(m.Context(), func(tx engine.Tx) error {
		if err := o.layout.begin(tx); err != nil {
			return err
		}
		for _, key := range append(m.keys, m.entry(m.next+1).key) {
			if id, err := o.layout.find(tx, key); err != nil || !bytes.Equal(id, m.ids[key]) {
				return errors.Join(err, fmt.Errorf("key %s: entry %x, want %x", key, id, m.ids[key]))
			}
		}
		return nil
	}); err != nil {
		m.Fatal(err)
	}
}

func TestFiltersFindTheirKeysAndFewOthers(t *testing.T) {
	const keys = 20_000
	d := &dataset{size: 2 * keys}
	f := newFilter(keys)
	for n := range keys {
		f.add(kernel.Hash16(d.entry(n).key))
	}
	f = decodeFilter(f.encode())
	others := 0
	for n := range 2 * keys {
		switch has := f.mayHave(kernel.Hash16(d.entry(n).key)); {
		case n < keys && !has:
			t.Fatalf("key %d is missing", n)
		case n >= keys && has:
			others++
		}
	}
	if others > keys/300 {
		t.Errorf("%d of %d other keys are found, want about 1 in 1,000", others, keys)
	}
}
