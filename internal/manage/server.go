package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// A Server is what operators can see of the process that serves the API.
type Server struct {
	Host      string // name of the machine; "" if it is unknown
	Version   string // of the release, the revision and Go
	StartedAt atrium.Time
	Settings  []Setting
	Jobs      func() []Job

	// Checks makes the checks of atrium doctor. The error's code is atrium.CodeUnavailable if too many calls are in
	// progress.
	Checks func(context.Context) ([]Check, error)
}

// A Setting is a setting in force, without secrets.
type Setting struct {
	Name   string  `json:"name"`
	Value  *string `json:"value,omitzero"` // nil if it is hidden
	Source string  `json:"source"`
}

// A Job is a background job with its last runs since the start.
type Job struct {
	Name            string       `json:"name"`
	IntervalSeconds int64        `json:"intervalSeconds"`
	LastSuccessAt   *atrium.Time `json:"lastSuccessAt,omitzero"`
	LastFailureAt   *atrium.Time `json:"lastFailureAt,omitzero"`
	LastError       string       `json:"lastError,omitzero"`
}

// A Check is the result of a check of the server, its database and its machine.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Fix    string `json:"fix,omitzero"` // how to fix it, unless it is ok
}

// ofServer is a list of what a server has.
type ofServer[T any] struct {
	Host      string      `json:"host"`
	Version   string      `json:"version"`
	StartedAt atrium.Time `json:"startedAt"`
	Items     []T         `json:"items"`
}

func listOf[T any](s *Server, items []T) ofServer[T] {
	return ofServer[T]{s.Host, s.Version, s.StartedAt, items}
}

func (a *API) listSettings(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
	if a.Server == nil { // the command line on the database
		return rest.Response{}, atrium.NotFound()
	}
	return rest.Response{Body: listOf(a.Server, a.Server.Settings)}, nil
}

func (a *API) listJobs(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
	if a.Server == nil {
		return rest.Response{}, atrium.NotFound()
	}
	return rest.Response{Body: listOf(a.Server, a.Server.Jobs())}, nil
}

func (a *API) listChecks(ctx context.Context, _ auth.Principal, r *rest.Request) (rest.Response, error) {
	if a.Server == nil {
		return rest.Response{}, atrium.NotFound()
	}
	ctx, cancel := r.UntilClosed(ctx)
	defer cancel()
	checks, err := a.Server.Checks(ctx)
	return rest.Response{Body: listOf(a.Server, checks)}, err
}
