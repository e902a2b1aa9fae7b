package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A URL that names several hosts leads to the one that accepts writes. After a
// failover that may be two for a while: the one that was promoted, and the former
// primary, which was started again as it was and knows nothing. To be promoted is to
// begin a timeline with a higher number (PostgreSQL documentation, section 26.3.6),
// so whoever has seen the new primary can tell the former one.
//
// This is no substitute for fencing: a process that starts has seen nobody yet, and
// two servers that were both promoted begin the same timeline.

// namesSeveral reports whether a URL names several servers. Whether TLS is tried first
// makes no difference to that.
func namesSeveral(config *pgx.ConnConfig) bool {
	return slices.ContainsFunc(config.Fallbacks, func(other *pgconn.FallbackConfig) bool {
		return other.Host != config.Host || other.Port != config.Port
	})
}

// timelineKey is the key under which a connection keeps its server's timeline.
const timelineKey = "atrium timeline"

// A newestTimeline is the highest that a server was seen on. The zero value is for
// none yet.
type newestTimeline struct{ number atomic.Uint32 }

// guard makes a pool refuse servers that another one has replaced, and give up its
// connections to them.
func (n *newestTimeline) guard(config *pgxpool.Config) {
	validate := config.ConnConfig.ValidateConnect
	config.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		timeline, known, err := timelineOf(ctx, conn)
		if err != nil {
			return fmt.Errorf("find out the timeline of the server, one of several: %w", err)
		}
		if !known {
			return nil
		}
		conn.CustomData()[timelineKey] = timeline
		for newest := n.number.Load(); timeline != newest; newest = n.number.Load() {
			if timeline < newest {
				return fmt.Errorf("the server is on timeline %d, and one on %d has replaced it", timeline, newest)
			}
			if n.number.CompareAndSwap(newest, timeline) {
				break
			}
		}
		return nil
	}
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		timeline, known := conn.PgConn().CustomData()[timelineKey].(uint32)
		return !known || timeline >= n.number.Load(), nil
	}
}

// timelineOf returns the timeline that a server writes: the first eight digits of a
// file's name. Those that only speak PostgreSQL's protocol may have none. Any other
// failure is an error: the server might be one that was replaced.
func timelineOf(ctx context.Context, conn *pgconn.PgConn) (timeline uint32, known bool, err error) {
	results, err := conn.Exec(ctx, "SELECT pg_walfile_name(pg_current_wal_lsn())").ReadAll()
	switch state := sqlState(err); {
	case state == "42883" || state == "0A000": // undefined function, feature not supported
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0][0]) < 8:
		return 0, false, errors.New("the name of its log file is none")
	}
	number, err := strconv.ParseUint(string(results[0].Rows[0][0][:8]), 16, 32)
	return uint32(number), err == nil, err
}
