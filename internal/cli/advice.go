package cli

import (
	"context"
	"net/http"
	"strings"

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

// parent returns a call that reads the resource at the path of a call without its last segment.
func parent(of call) call {
	return call{method: http.MethodGet, path: of.path[:strings.LastIndexByte(of.path, '/')]}
}
