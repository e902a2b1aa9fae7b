package rest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// A snapshot that is open uses a connection to the database and, on SQLite, keeps the WAL
// from starting over. So a client may not take long to read a document.
const (
	documentTimeout = time.Minute      // of a document where the server has no write timeout
	documentStall   = 10 * time.Second // of each write
)

// errDocumentSent ends a document whose snapshot was lost after its headers were sent.
var errDocumentSent = errors.New("part of the document was sent already")

// writeDocument sends the document of a response. It opens one snapshot, whose document it
// writes twice: the first pass counts its bytes and returns its tag, the second one goes to
// the client unless If-None-Match or HEAD makes it unnecessary. An error after the headers
// closes the connection, so that no client takes a part for the whole.
func (a *API) writeDocument(w http.ResponseWriter, r *http.Request, response Response) error {
	timeout, control := documentTimeout, http.NewResponseController(w)
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		timeout = server.WriteTimeout
	} else {
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the server does not for the next response
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	until, _ := ctx.Deadline()
	sent := false
	err := response.Document(ctx, func(write DocumentWriter) error {
		if sent { // the engine runs a transaction again whose connection was lost
			return errDocumentSent
		}
		var size byteCounter
		tag, err := write(&size)
		if err != nil {
			return err
		}
		sent = true
		h := w.Header()
		maps.Copy(h, response.Header)
		if setTag(w, r, tag) {
			return nil
		}
		h[headerType], h[headerCache], h[headerLength] = typeJSON, forItsCaller, []string{strconv.FormatInt(int64(size), 10)}
		w.WriteHeader(cmp.Or(response.Status, http.StatusOK))
		if r.Method == http.MethodHead {
			return nil
		}
		_, err = write(&documentConn{w, control, until})
		return err
	})
	if err != nil && sent {
		a.Log.WarnContext(ctx, "response aborted", "requestId", note(w).RequestID, "error", err)
		panic(http.ErrAbortHandler) //nolint:forbidigo // the only way to close the connection
	}
	return err
}

// A byteCounter counts the bytes that are written to it.
type byteCounter int64

func (c *byteCounter) Write(b []byte) (int, error) {
	*c += byteCounter(len(b))
	return len(b), nil
}

// A documentConn writes to a client that must read at a minimum speed: each write ends
// after documentStall, and all of them at an instant.
type documentConn struct {
	w       io.Writer
	control *http.ResponseController
	until   time.Time
}

func (c *documentConn) Write(b []byte) (int, error) {
	deadline := time.Now().Add(documentStall)
	if c.until.Before(deadline) {
		deadline = c.until
	}
	if err := c.control.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return c.w.Write(b)
}
