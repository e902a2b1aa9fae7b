package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"atrium/internal/store/engine"
)

// classify returns err with its class, nil for nil. The class follows from the SQLSTATE (PostgreSQL
// documentation, appendix A). An error without one is a connection error, unless the arguments do
// not fit their statement.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if code := sqlState(err); code != "" {
		return &engine.Error{Class: classOfState(code), Err: err}
	}
	if isUnsent(err) && !isNetwork(err) {
		return &engine.Error{Class: engine.Internal, Err: err}
	}
	return &engine.Error{Class: engine.Unavailable, Err: &connError{err}}
}

// isUnsent reports whether no statement of a batch was sent, because preparing one or encoding its
// arguments failed.
func isUnsent(err error) bool {
	_, ok := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return ok
}

// isNetwork reports whether err is a broken connection or a network timeout.
func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || pgconn.Timeout(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// A connError is an error of an open connection.
type connError struct{ error }

func (e *connError) Unwrap() error { return e.error }

func (e *connError) Error() string { return fmt.Sprintf("database connection: %v", e.error) }

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// lockNotAvailable is the SQLSTATE of a statement that reached lock_timeout.
const lockNotAvailable = "55P03"

// SQLSTATEs of a prepared statement that belongs to another connection of a pooler.
const (
	statementUnknown = "26000"
	statementKnown   = "42P05"
)

// classOfState returns the class of an SQLSTATE, whose first two characters are the standard's
// class.
func classOfState(code string) engine.Class {
	switch code {
	case "42P07": // duplicate table: another node created it concurrently
		return engine.Conflict
	case "40001", "40P01", lockNotAvailable, "3D000": // serialization, deadlock, no such database
		return engine.Unavailable
	case statementUnknown, statementKnown:
		return engine.Unavailable
	case "XX001", "XX002": // data or index corrupted
		return engine.Corrupt
	}
	switch code[:min(2, len(code))] {
	case "23": // integrity constraint violation
		return engine.Conflict
	// Connection, transaction state such as read-only, authorization, resources, operator
	// intervention, system.
	case "08", "25", "28", "53", "57", "58":
		return engine.Unavailable
	}
	return engine.Internal
}

// undecided reports whether a failed commit may have taken effect: there was no response, the
// server ended the session, possibly after the commit reached its disk, or the server says so.
func undecided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC" ||
		e.Code == "08007" || e.Code == "40003"
}

// isContended reports whether the server aborted a transaction in favor of another one, or because
// of a lock timeout.
func isContended(err error) bool {
	code := sqlState(err)
	return (code == "40001" || code == "40P01" || code == lockNotAvailable) && engine.ClassOf(err) == engine.Unavailable
}

// isLost reports whether a connection became unusable before a commit was sent on it: it is closed,
// its server is now read-only, or it lacks the session state that we set. A connection that timed
// out is not lost: a new one would be no better.
func isLost(err error) bool {
	if engine.ClassOf(err) != engine.Unavailable {
		return false
	}
	switch code := sqlState(err); code {
	case "":
		_, ok := errors.AsType[*connError](err)
		return ok && !isTimeout(err)
	case "57P01", "57P02", "25006", statementUnknown:
		return true
	default:
		return strings.HasPrefix(code, "08")
	}
}

// isRemote reports whether a Citus coordinator has lost a connection to a worker. The connection to
// the coordinator is still usable.
func isRemote(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR" && (strings.HasPrefix(e.Code, "08") || strings.HasPrefix(e.Code, "57P"))
}

// isTimeout reports whether a deadline of this process has passed. A timeout of the operating
// system is a lost connection instead.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// explainPooler adds how to fix missing or duplicate prepared statements.
func explainPooler(err error) error {
	if state := sqlState(err); state == statementUnknown || state == statementKnown {
		err = fmt.Errorf("a pooler shares this connection between transactions: "+
			"use unprepared statements (database-statements): %w", err)
	}
	return err
}
