package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/transfer"
)

func (a *API) importData(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	o := transfer.Options{
		Actor: who.Actor(), RequestID: r.ID(), FromLine: int(numberParameter(q, "fromLine")),
		MaxLine: int(a.MaxLine), MaxPage: a.MaxLine > 0,
		Limits: transfer.Limits{
			Acquire: r.AcquireHeavy, Reserve: r.Reserve, Recheck: r.Recheck,
			AcquireCommit: func(ctx context.Context) (func(), error) { return r.AcquireChange(ctx, true) },
		},
	}
	switch check, given := q.Text("check"); {
	case given && check != "true" && check != "false":
		q.Fault("check", "must be true or false")
	case given:
		o.Check = check == "true"
	}
	if all := boolParameter(q, "allFaults"); all != nil {
		if o.AllFaults = *all; *all && !o.Check {
			q.Fault("allFaults", "requires check=true")
		}
	}
	if skip := boolParameter(q, "skipExisting"); skip != nil {
		o.SkipExisting = *skip
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	open := a.Imports
	if o.Check {
		open = a.Checks
		var cancel context.CancelFunc
		ctx, cancel = r.UntilClosed(ctx)
		defer cancel()
	}
	var done transfer.Report
	err := openImport(ctx, open, who.TenantID, func() (err error) {
		done, err = transfer.Import(ctx, a.Store, who.TenantID, r.Stream, o)
		return err
	})
	if err != nil {
		return rest.Response{}, importError(err, done, o.Check)
	}
	return rest.Response{Body: done}, nil
}

// importError returns the error for an import that ended early, and says how to resume. The pointer of a fault begins with
// its line number. Only an invalid line or an incomplete body ends an import between transactions: otherwise the number of
// stored records is not known for sure.
func importError(err error, done transfer.Report, check bool) error {
	resume := func(from int) string {
		if check {
			return "Nothing was stored: this was a check."
		}
		if done.Added+done.Same == 0 {
			return fmt.Sprintf("Resume with fromLine=%d.", from)
		}
		return fmt.Sprintf("All lines before line %d are stored: resume with fromLine=%d.", from, from)
	}
	added := func() string {
		switch {
		case check:
			return ""
		case done.Added == 0:
			return "Nothing was stored. "
		}
		return atrium.Count(done.Added, "record was", "records were") + " stored. "
	}
	if line, ok := errors.AsType[*transfer.LineError](err); ok {
		e := atrium.Errorf(atrium.CodeInvalidRequest, "Line %d was rejected. %s%s", line.Line, added(), resume(line.ResumeFrom))
		for _, f := range line.Faults {
			f.In, f.Where = atrium.InBody, fmt.Sprintf("/%d%s", line.Line, f.Where)
			e.Faults = append(e.Faults, f)
		}
		return e
	}
	if past, ok := errors.AsType[*transfer.PastEndError](err); ok {
		return atrium.Invalid(atrium.Fault{In: atrium.InQuery, Where: "fromLine", Detail: past.Error()})
	}
	stop, ok := errors.AsType[*transfer.StopError](err)
	if !ok {
		return err
	}
	switch e, public := errors.AsType[*atrium.Error](stop.Err); {
	case errors.Is(stop.Err, rest.ErrStopping), errors.Is(stop.Err, context.Canceled):
		return atrium.Errorf(atrium.CodeUnavailable, "The import was interrupted. %s", resume(stop.ResumeFrom)).Because(stop.Err)
	case public && (stop.Reading || e.Code == atrium.CodeUnauthenticated || e.Code == atrium.CodeForbidden):
		stored := ""
		if stop.Reading {
			stored = added()
		}
		resumed := atrium.Errorf(e.Code, "%s %s%s", e.Detail, stored, resume(stop.ResumeFrom)).Because(stop.Err)
		resumed.Faults = e.Faults
		return resumed
	case stop.Reading:
		e := atrium.Errorf(atrium.CodeInvalidRequest, "The body ended before it was complete. %s%s", added(), resume(stop.ResumeFrom))
		e.Faults = []atrium.Fault{{In: atrium.InBody, Detail: "ended before it was complete"}}
		return e.Because(stop.Err)
	case public && e.Code == atrium.CodeUnavailable:
		return atrium.Errorf(atrium.CodeUnavailable, "The import was interrupted. %s", resume(stop.ResumeFrom)).Because(stop.Err)
	}
	return err
}

// openImport calls f, an import, unless too many are in progress.
func openImport(ctx context.Context, open *limit.Semaphore[atrium.TenantID], tenant atrium.TenantID, f func() error) error {
	if open.Acquire(ctx, tenant) != nil {
		return atrium.Unavailable(rest.ErrStreams)
	}
	defer open.Release(tenant)
	return f()
}

func (a *API) exportData(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	return rest.Response{Open: a.Exports, Stream: func(w io.Writer) error {
		_, err := transfer.Export(ctx, a.Store, who.TenantID, w)
		return err
	}}, nil
}

func (a *API) transferRoutes() []rest.Route {
	in := write(http.MethodPost, "/import", atrium.ScopeManage, a.importData)
	in.Consumes = rest.Lines
	return []rest.Route{in, reads(stream("/export", a.exportData), atrium.ReadExport, "")}
}
