package manage

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/jsonpatch"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// A version omits its content in lists. The content never changes, so the entity tag of a version
// covers everything else.
type version struct {
	ID            atrium.VersionID  `json:"id"`
	TenantID      atrium.TenantID   `json:"tenantId"`
	AudienceID    atrium.AudienceID `json:"audienceId"`
	VersionNumber int64             `json:"versionNumber"`
	Archived      bool              `json:"archived"`
	Published     bool              `json:"published"`
	Note          string            `json:"note,omitzero"`
	CreatedAt     atrium.Time       `json:"createdAt"`
	Content       jsontext.Value    `json:"content,omitzero"`
}

func newVersion(v atrium.PublishedVersion) version {
	return version{
		ID: v.ID, TenantID: v.TenantID, AudienceID: v.AudienceID, VersionNumber: v.Number,
		Archived: v.Archived, Published: v.Published, Note: v.Note, CreatedAt: v.CreatedAt,
	}
}

// pathVersion returns the audience and the version number in the path.
func pathVersion(r *rest.Request) (page atrium.PageID, id atrium.AudienceID, number int64, err error) {
	if page, id, err = pathAudience(r); err != nil {
		return page, id, 0, err
	}
	text := r.PathValue("version_number")
	number, ok := strictjson.Digits(text, atrium.MaxVersionNumber)
	if !ok || strings.HasPrefix(text, "0") {
		err = atrium.NotFound()
	}
	return page, id, number, err
}

func (a *API) listVersions(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "versions", r.PathValue("page_id"), r.PathValue("audience_id")}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	page, id, err := pathAudience(r)
	if err != nil {
		return rest.Response{}, err
	}
	var before int64
	if after != nil {
		before = after.Key
	}
	found, more, err := a.Store.VersionHistory(ctx, who.TenantID, page, id, before, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newVersion, func(v atrium.PublishedVersion) *atrium.Position {
		return atrium.PositionAt(atrium.Time(v.Number), v.ID)
	}, binding), nil
}

func (a *API) createVersion(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var content []byte
	var note string
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		if content = compactJSON(o.Value("content")); content == nil {
			o.Fault("content", "is required")
		}
		note, _ = o.Text("note", strictjson.Optional, func(text string) string { return atrium.CheckText(text, 0, atrium.MaxNote) })
	})
	if err != nil {
		return rest.Response{}, err
	}
	page, id, err := pathAudience(r)
	if err != nil {
		return rest.Response{}, err
	}
	v, replayed, err := a.Store.CreateVersion(ctx, c, page, id, content, note)
	return rest.Created(newVersion(v), replayed), err
}

func (a *API) getVersion(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	page, id, number, err := pathVersion(r)
	if err != nil {
		return rest.Response{}, err
	}
	v, err := a.Store.Version(ctx, who.TenantID, page, id, number)
	if err != nil {
		return rest.Response{}, err
	}
	view := newVersion(v)
	tag, err := rest.StateTag(view)
	view.Content = v.Content
	return rest.Response{Body: view, ETag: tag}, err
}

// maxCompared is the maximum size of the contents of two versions that are compared, added
// up, in bytes. A comparison takes several times as much memory, and some tens of
// milliseconds per MiB.
const maxCompared = 4 << 20

type comparison struct {
	From  int64          `json:"from"`
	To    int64          `json:"to"`
	Patch jsontext.Value `json:"patch"`
}

func (a *API) compareVersions(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	text, given := q.Text("to")
	to, ok := strictjson.Digits(text, atrium.MaxVersionNumber)
	switch {
	case !given && q.Err() == nil:
		q.Fault("to", "is required")
	case given && (!ok || strings.HasPrefix(text, "0")):
		q.Fault("to", "must be the number of a version, in digits")
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	page, id, from, err := pathVersion(r)
	if err != nil {
		return rest.Response{}, err
	}
	response := comparison{From: from, To: to}
	var contents [2][]byte
	for i, number := range []int64{from, to} {
		v, err := a.Store.Version(ctx, who.TenantID, page, id, number)
		if err != nil {
			return rest.Response{}, err
		}
		if contents[i] = v.Content; v.Content == nil {
			return rest.Response{}, atrium.Errorf(atrium.CodeConflict, "A version without content cannot be compared.")
		}
	}
	if len(contents[0])+len(contents[1]) > maxCompared {
		return rest.Response{}, atrium.Errorf(atrium.CodeConflict, "Versions with more than %d bytes of content together cannot be compared.", maxCompared)
	}
	response.Patch, err = jsonpatch.Diff(contents[0], contents[1])
	return rest.Response{Body: response}, err
}

// checkVersion returns a function that checks a version against If-Match, if the request
// has it.
func checkVersion(r *rest.Request) func(atrium.PublishedVersion) error {
	return func(v atrium.PublishedVersion) error { return r.CheckState(newVersion(v)) }
}

func (a *API) publishVersion(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	page, id, number, err := pathVersion(r)
	if err != nil {
		return rest.Response{}, err
	}
	v, err := a.Store.PublishVersion(ctx, c, page, id, number, checkVersion(r))
	return rest.Response{Body: newVersion(v), Tagged: true}, err
}

// archiveVersion returns the handler that archives or restores a version.
func (a *API) archiveVersion(archived bool) rest.Handler {
	return func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		c, err := r.DecodeChange(who, nil)
		if err != nil {
			return rest.Response{}, err
		}
		page, id, number, err := pathVersion(r)
		if err != nil {
			return rest.Response{}, err
		}
		v, err := a.Store.ArchiveVersion(ctx, c, page, id, number, archived, checkVersion(r))
		return rest.Response{Body: newVersion(v), Tagged: true}, err
	}
}
