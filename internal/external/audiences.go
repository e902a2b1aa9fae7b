package external

import (
	"context"
	"strings"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

type version struct {
	ID            atrium.VersionID `json:"id"`
	VersionNumber int64            `json:"versionNumber"`
	CreatedAt     atrium.Time      `json:"createdAt"`
	Archived      *bool            `json:"archived,omitzero"`
}

type versionList struct {
	Items []version   `json:"items"`
	Page  versionPage `json:"page"`
}

type versionPage struct {
	HasMore    bool  `json:"hasMore"`
	TotalCount int64 `json:"totalCount"`
}

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
	versions, total, err := a.Store.Versions(ctx, who.TenantID, page, audience, skip, limit)
	if err != nil {
		return rest.Response{}, err
	}
	list := versionList{
		Items: make([]version, len(versions)),
		Page:  versionPage{HasMore: skip < total-int64(len(versions)), TotalCount: total},
	}
	for i := range versions {
		v := &versions[i]
		list.Items[i] = version{ID: v.ID, VersionNumber: v.Number, CreatedAt: v.CreatedAt}
		if withArchived {
			list.Items[i].Archived = &v.Archived
		}
	}
	return rest.Response{Body: list}, nil
}

// includeArchived takes the parameter include: names of members with commas
// between them, of which archived is the only one there is.
func includeArchived(q *rest.Query) bool {
	text, ok := q.Text("include")
	if !ok {
		return false
	}
	for name := range strings.SplitSeq(text, ",") {
		if strings.Trim(name, " ") != "archived" {
			q.Fault("include", "must name only members that can be included: archived")
			return false
		}
	}
	return true
}
