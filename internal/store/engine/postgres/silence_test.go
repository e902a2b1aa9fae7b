package postgres_test

import (
	"sync"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/test/cutproxy"
)

// Timed-out connections free their slots in the pool at once, although the server never responds on
// them.
func TestConnectionsThatTimeOutRepeatedlyAreReplaced(t *testing.T) {
	const connections = 3
	options := postgres.Options{Connections: connections, Timeout: time.Second}
	s := open(t, options)
	p, through := cutproxy.New(t, s.url)
	db, err := postgres.Open(t.Context(), through, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for range 3 {
		var running, used sync.WaitGroup
		used.Add(connections)
		silence := sync.OnceFunc(func() {
			used.Wait()
			p.Silence()
		})
		for range connections {
			running.Go(func() {
				connected := false
				err := db.Write(t.Context(), func(tx engine.Tx) error {
					if !connected {
						connected = true
						used.Done()
						silence()
					}
					return tx.Query("SELECT 1", nil, func(engine.Row) error { return nil })
				})
				if !connected {
					t.Errorf("no connection: %v", err)
					used.Done()
				}
			})
		}
		running.Wait()
	}
	p.Wake()
}
