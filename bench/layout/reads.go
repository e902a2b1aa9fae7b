package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// readerCacheKB and readerMmapMB are what a reading connection of the service
// gets.
const (
	readerCacheKB = 2048
	readerMmapMB  = 256
)

func openReader(path string, mmapMB int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	return conn, pragmas(conn, fmt.Sprintf("cache_size = -%d", readerCacheKB), fmt.Sprintf("mmap_size = %d", mmapMB<<20))
}

// measureReads times, for every candidate in turn, the reads that its layout
// supports: one entry by key, one by id, the newest 50 of a busy account.
func measureReads(cs []*candidate, o options) error {
	const rounds = 3
	for r := range rounds {
		for i := range cs {
			c := cs[(i+r)%len(cs)]
			if err := c.read(o, uint64(r)); err != nil {
				return fmt.Errorf("read %s: %w", c.l.name, err)
			}
		}
	}
	return nil
}

func (c *candidate) read(o options, seed uint64) error {
	conn, err := openReader(c.path, readerMmapMB)
	if err != nil {
		return err
	}
	defer conn.Close()
	rng := rand.New(rand.NewPCG(seed, 1))
	points := min(4000, len(c.w.w.sample)*4)
	pick := func() known { return c.w.w.sample[rng.IntN(len(c.w.w.sample))] }

	byID := conn.Prep(c.l.byIDSQL())
	if err := c.time("id", points, func() (int, error) {
		k := pick()
		return readRows(byID, k.tenantID, k.id)
	}); err != nil {
		return err
	}
	if c.l.clients != noKeys && o.keyed == 1 {
		byKey := conn.Prep(c.l.byKeySQL())
		if err := c.time("key", points, func() (int, error) {
			k := pick()
			return readRows(byKey, k.tenantID, k.key)
		}); err != nil {
			return err
		}
	}
	if sql := c.l.timelineSQL(); sql != "" {
		timeline := conn.Prep(sql)
		busy := c.w.w.accounts[:max(1, len(c.w.w.accounts)/busyShare)]
		return c.time("timeline", points/20, func() (int, error) {
			a := busy[rng.IntN(len(busy))]
			return readRows(timeline, a.tenantID, a.id)
		})
	}
	return nil
}

// time records the mean of n calls in µs. A call that finds nothing is an
// error: the layout's query would be wrong.
func (c *candidate) time(what string, n int, f func() (int, error)) error {
	start := time.Now()
	for range n {
		rows, err := f()
		if err != nil {
			return err
		}
		if rows == 0 {
			return fmt.Errorf("by %s: nothing found", what)
		}
	}
	c.reads[what] = append(c.reads[what], micros(time.Since(start))/float64(n))
	return nil
}

// readRows steps through the result and copies every column out, as the service
// would.
func readRows(s *sqlite.Stmt, args ...value) (rows int, err error) {
	return readJoined(s, 0, args...)
}

// readJoined is readRows where the first columns are the same in every row and
// are read once.
func readJoined(s *sqlite.Stmt, same int, args ...value) (rows int, err error) {
	for i, a := range args {
		a.bind(s, i+1)
	}
	var buf []byte
	for {
		more, err := s.Step()
		if err != nil {
			return rows, err
		}
		if !more {
			return rows, s.Reset()
		}
		first := 0
		if rows > 0 {
			first = same
		}
		rows++
		for i := first; i < s.ColumnCount(); i++ {
			switch s.ColumnType(i) {
			case sqlite.TypeText:
				_ = s.ColumnText(i)
			case sqlite.TypeBlob:
				if n := s.ColumnLen(i); n > len(buf) {
					buf = make([]byte, n)
				}
				s.ColumnBytes(i, buf)
			default:
				_ = s.ColumnInt64(i)
			}
		}
	}
}

// btree is the size of one table or index.
type btree struct {
	name      string
	perEntry  float64 // bytes
	overflow  float64 // bytes of perEntry in overflow pages
	fillRatio float64 // used bytes of all bytes
}

func readBtrees(conn *sqlite.Conn, entries int) (bs []btree, err error) {
	err = sqlitex.ExecuteTransient(conn, `SELECT name, sum(pgsize), sum(CASE WHEN pagetype = 'overflow' THEN pgsize ELSE 0 END), sum(unused)
FROM dbstat WHERE name LIKE '%account_log%' GROUP BY name ORDER BY name`, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			size := s.ColumnFloat(1)
			bs = append(bs, btree{name: s.ColumnText(0), perEntry: size / float64(entries),
				overflow: s.ColumnFloat(2) / float64(entries), fillRatio: 1 - s.ColumnFloat(3)/size})
			return nil
		}})
	return bs, err
}
