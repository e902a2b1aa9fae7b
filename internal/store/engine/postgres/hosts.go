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

// A URL with several hosts connects to the host that accepts writes. After a failover, two may
// accept writes for a while: the promoted one, and the former primary if it was restarted without
// being demoted. A promotion begins a timeline with a higher number (PostgreSQL documentation,
// section 26.3.6), so a process that has seen the new primary recognizes the former one.
//
// This does not replace fencing: a process that just started has seen no server yet, and two
// servers that were both promoted begin the same timeline.

// hasSeveralHosts reports whether a URL names several servers. pgx also adds fallbacks that differ
// only in TLS.
func hasSeveralHosts(config *pgx.ConnConfig) bool {
	return slices.ContainsFunc(config.Fallbacks, func(other *pgconn.FallbackConfig) bool {
		return other.Host != config.Host || other.Port != config.Port
	})
}

// timelineKey is the key of the server's timeline in a connection's CustomData.
const timelineKey = "atrium timeline"

// A newestTimeline is the highest timeline seen on any server, zero if none was seen.
type newestTimeline struct{ number atomic.Uint32 }

// guard makes a pool refuse servers that were replaced by another, and close its connections to
// them.
func (n *newestTimeline) guard(config *pgxpool.Config) {
	validate := config.ConnConfig.ValidateConnect
	config.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		timeline, known, err := timelineOf(ctx, conn)
		if err != nil {
			return fmt.Errorf("read the timeline of the server: %w", err)
		}
		if !known {
			return nil
		}
		conn.CustomData()[timelineKey] = timeline
		for newest := n.number.Load(); timeline != newest; newest = n.number.Load() {
			if timeline < newest {
				return fmt.Errorf("the server was replaced: it is on timeline %d, a newer server on %d", timeline, newest)
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

// timelineOf returns the timeline that a server writes, which is the first eight digits of a WAL
// file name. Servers that only speak PostgreSQL's protocol may have none. Any other failure is an
// error, because the server might have been replaced.
func timelineOf(ctx context.Context, conn *pgconn.PgConn) (timeline uint32, known bool, err error) {
	results, err := conn.Exec(ctx, "SELECT pg_walfile_name(pg_current_wal_lsn())").ReadAll()
	switch state := sqlState(err); {
	case state == "42883" || state == "0A000": // undefined function, feature not supported
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0][0]) < 8:
		return 0, false, errors.New("invalid WAL file name")
	}
	number, err := strconv.ParseUint(string(results[0].Rows[0][0][:8]), 16, 32)
	return uint32(number), err == nil, err
}
