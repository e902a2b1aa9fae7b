package workload

import (
	"errors"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/store/kernel"
)

// cacheKB is the size of the page cache of WriteDirectly, which holds the pages that a transaction changes.
const cacheKB = 1 << 20

// WriteDirectly runs f in a transaction on a SQLite file that no other process uses. It uses no journal and syncs
// nothing: if f or the process fails, the file is unusable.
func WriteDirectly(path string, f func(c *sqlite.Conn) error) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, pragma := range []string{"journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -" + strconv.Itoa(cacheKB)} {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	return f(c)
}

// Numbered returns the identifier of the nth record of a kind. As in the identifiers of the service, the first part
// grows with time and the rest looks random.
func Numbered[T atrium.Identifier](n int) T {
	var zero T
	return T(fmt.Sprintf("%s%010d%016x", zero.Prefix(), n, Scatter(uint64(n))))
}

// PackedID returns an identifier as the database stores it.
func PackedID[T atrium.Identifier](id T) []byte { return kernel.PackID(string(id[len(id.Prefix()):])) }

// Scatter returns a number that looks random, and another one for each n: it is the output function of SplitMix64.
func Scatter(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
