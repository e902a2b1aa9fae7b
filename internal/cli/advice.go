package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// This file describes what operations tell people in addition to the response.

// An addressFunc returns a text with a URL for the response. base is the URL of the server, or "" for the database.
type addressFunc func(base string, response jsontext.Value) (string, error)

// A noneFunc returns what to add to the message that a list is empty.
type noneFunc func(cmd *cobra.Command) string

// A promptFunc returns a description of what a call affects, or "".
type promptFunc func(context.Context, *client, call) string

// An effect is a change that succeeded.
type effect struct {
	call             call
	before, response jsontext.Value // before is nil if it was not read
}

// An adviseFunc returns what follows from a change that is easily overlooked, or "". It is printed to
// stderr. The change has succeeded, so there is no error.
type adviseFunc func(context.Context, *client, effect) string

// needsServer returns advice for a command on the database that only begins work, which a running server completes.
func needsServer(does string) adviseFunc {
	return func(_ context.Context, c *client, e effect) string {
		var created struct {
			CreatedAt string `json:"createdAt"`
		}
		if c.base != inProcessURL || json.Unmarshal(e.response, &created, lenientJSON) != nil || created.CreatedAt == "" {
			return "" // such as a check
		}
		return "A running server " + does + ": if none uses this database, start one."
	}
}

// parent returns a call that reads the resource at the path of a call without its last segment.
func parent(of call) call {
	return call{method: http.MethodGet, path: of.path[:strings.LastIndexByte(of.path, '/')]}
}
