package external

import (
	"context"
	"strings"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

func (a *API) listVersions(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	skip := q.Page(limit)
	withArchived := includeArchived(q)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	page, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	audience, err := rest.PathID[atrium.AudienceID](r, "audience_id")
	if err != nil {
		return rest.Response{}, err
	}
	return a.Cache.Get(r, who.TenantID, "", func() (rest.Response, bool, error) {
		if skip > manySkipped {
			release, err := r.AcquireHeavy(ctx)
			if err != nil {
				return rest.Response{}, false, err
			}
			defer release()
		}
		versions, total, err := a.Store.Versions(ctx, who.TenantID, page, audience, skip, limit)
		if err != nil {
			return rest.Response{}, false, err
		}
		more := skip < total-int64(len(versions))
		body, err := encodeVersions(versions, withArchived, more, total)
		return rest.Response{Body: body}, true, err
	})
}

// manySkipped is the number of skipped versions above which a read is heavy work: if numbers are
// missing, the store reads what it skips.
const manySkipped = 100

// includeArchived decodes the parameter include, a comma-separated list of member names. The only
// valid name is archived.
func includeArchived(q *rest.Query) bool {
	text, ok := q.Text("include")
	if !ok {
		return false
	}
	for name := range strings.SplitSeq(text, ",") {
		if strings.Trim(name, " ") != "archived" {
			q.Fault("include", "must name only fields that can be included: archived")
			return false
		}
	}
	return true
}
