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

// classified gives an error its class, by its code (PostgreSQL documentation,
// appendix A); nil stays nil. An error without a code is of the connection, unless
// arguments do not fit their statement.
func classified(err error) error {
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

// isUnsent reports whether no statement of a batch was sent: one of them could not be
// prepared, or its arguments do not fit.
func isUnsent(err error) bool {
	_, ok := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return ok
}

// isNetwork reports whether a connection broke, or was too slow.
func isNetwork(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || pgconn.Timeout(err) || errors.Is(err, io.ErrUnexpectedEOF)
}

// A connError is a failure of a connection that was open.
type connError struct{ error }

func (e *connError) Unwrap() error { return e.error }

func (e *connError) Error() string { return fmt.Sprintf("the connection to the database: %v", e.error) }

func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// What a server says about a statement that was prepared on another connection of a
// shared pool.
const (
	statementUnknown = "26000"
	statementKnown   = "42P05"
)

// classOfState returns the class of an SQLSTATE. The first two characters are
// the standard's own classes.
func classOfState(code string) engine.Class {
	switch code {
	case "42P07": // a table that another node has made at the same time
		return engine.Conflict
	case "40001", "40P01", "55P03", "3D000": // serialization, deadlock, lock not available, no such database
		return engine.Unavailable
	case statementUnknown, statementKnown:
		return engine.Unavailable
	case "XX001", "XX002": // data or index corrupted
		return engine.Corrupt
	}
	switch code[:min(2, len(code))] {
	case "23": // integrity constraint violation
		return engine.Conflict
	case "08", "25", "28", "53", "57", "58": // connection, state such as read-only, authorization, resources, intervention, system
		return engine.Unavailable
	}
	return engine.Internal
}

// undecided reports whether the error of a commit leaves open what became of it:
// if there was no answer, if the server ended the session, which it may do when
// the commit is on its disk already, or if it says so.
func undecided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC" || e.Code == "08007" || e.Code == "40003"
}

// isContended reports whether the server ended a transaction for the sake of
// another one, or because one was in its way for longer than it wanted to wait.
func isContended(err error) bool {
	code := sqlState(err)
	return (code == "40001" || code == "40P01" || code == "55P03") && engine.ClassOf(err) != engine.Uncertain
}

// isLost reports whether a connection turned out to be of no use, before a commit
// was sent on it: it is gone, or leads to a server that only reads now, or has
// not the state that we gave it. One on which nothing came in time is not: the
// next one would be no better.
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

// isTimeout reports whether a deadline of ours has passed. What the system calls a
// time-out is a connection that it has given up.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// shared says what to do about a server that has not the statements that the
// connection was given.
func shared(err error) error {
	if state := sqlState(err); state == statementUnknown || state == statementKnown {
		err = fmt.Errorf("a pool shares this connection between transactions, and needs unprepared statements (database-statements): %w", err)
	}
	return err
}
