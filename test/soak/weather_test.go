package soak

import "sync"

// A weather tells the quiet phases from those with a fault.
type weather struct {
	mu     sync.Mutex
	storms int // guarded by mu; begun so far
	stormy int // guarded by mu; of these, not over yet
}

// A sky is the weather at an instant.
type sky struct {
	storms int
	stormy bool
}

// storm begins a phase with a fault, which lasts until over is called.
func (w *weather) storm() (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.storms++
	w.stormy++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stormy--
	}
}

func (w *weather) now() sky {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sky{w.storms, w.stormy > 0}
}

// quietSince reports whether there was no fault from an instant to now.
func (w *weather) quietSince(s sky) bool {
	now := w.now()
	return !s.stormy && !now.stormy && s.storms == now.storms
}
