package limit

import "time"

// Small parts of an input, such as TLS records or HTTP/2 frames, cost the server as much as large ones, and the client less. A
// goroutine that reads many of them also never waits for the network: as long as there are goroutines that can run, the Go
// scheduler looks for new data on other connections only every 10 ms.
const (
	freeParts  = 16 // for each request, and between pauses
	partsPause = 4 * time.Millisecond
)

// Parts counts the small parts of an input, and makes its reader pause 4 ms for each 16 of them. The first 16, and 16 more for
// each request that Allow counts, are free. It is not safe for concurrent use. The zero value has counted nothing.
type Parts struct {
	small int
}

// Add counts n small parts.
func (p *Parts) Add(n int) { p.small += n }

// Allow allows the small parts of n more requests.
func (p *Parts) Allow(n int) { p.small = max(0, p.small-n*freeParts) }

// Pause sleeps for the counted parts, and returns for how many.
func (p *Parts) Pause() (paused int) {
	if pauses := p.small/freeParts - 1; pauses > 0 {
		paused = pauses * freeParts
		p.small -= paused
		time.Sleep(time.Duration(pauses) * partsPause)
	}
	return paused
}
