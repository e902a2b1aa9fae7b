package soak

import "sync"

// phases distinguishes quiet phases from those with a fault.
type phases struct {
	mu     sync.Mutex
	begun  int // guarded by mu; phases with a fault so far
	active int // guarded by mu; of these, not over yet
}

// A phase is a snapshot of phases.
type phase struct {
	begun int
	fault bool
}

// beginFault begins a phase with a fault. over ends it.
func (p *phases) beginFault() (over func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	p.active++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.active--
	}
}

func (p *phases) now() phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return phase{p.begun, p.active > 0}
}

// quietSince reports whether there was no fault since a snapshot.
func (p *phases) quietSince(before phase) bool {
	now := p.now()
	return !before.fault && !now.fault && before.begun == now.begun
}
