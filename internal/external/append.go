package external

import (
	"atrium"
	"atrium/internal/appendjson"
)

// The answers of this API are asked for more than all others. They are encoded without
// reflection, to the bytes that the types in append_test.go would be encoded to.

// A receipt acknowledges an entry.
type receipt atrium.Receipt

func (r *receipt) AppendTo(w *appendjson.Writer) {
	w.Literal(`{"accountId":`)
	w.String(string(r.AccountID))
	w.Literal(`,"accountLogId":`)
	w.String(string(r.EntryID))
	w.Literal(`,"createdAt":`)
	w.Time(r.CreatedAt)
	w.Literal(`,"source":`)
	w.String(r.Source)
	w.Literal(`,"type":`)
	w.String(r.Type)
	w.Literal("}")
}

// A page in full is what one page looks like: it has its metadata, and neither title nor
// status.
type fullPage atrium.Page

func (p *fullPage) AppendTo(w *appendjson.Writer) {
	appendPage(w, (*atrium.Page)(p), false)
	if p.Metadata != nil {
		w.Literal(`,"metadata":`)
		w.Value(p.Metadata)
	}
	w.Literal("}")
}

// appendPage appends a page up to what only some of its forms have at the end.
func appendPage(w *appendjson.Writer, p *atrium.Page, listed bool) {
	w.Literal(`{"pageId":`)
	w.String(string(p.ID))
	w.Literal(`,"tenantId":`)
	w.String(string(p.TenantID))
	w.Literal(`,"brandId":`)
	w.String(p.BrandID)
	w.Literal(`,"name":`)
	w.String(p.Name)
	w.Literal(`,"pageContext":`)
	w.String(p.Context)
	if listed {
		w.Literal(`,"title":`)
		w.String(p.Title)
		w.Literal(`,"status":`)
		w.String(string(p.Status))
	}
	w.Literal(`,"actions":`)
	w.Value(p.Actions)
	w.Literal(`,"scripts":`)
	w.Value(p.Scripts)
	w.Literal(`,"footerLinks":`)
	w.Value(p.FooterLinks)
	w.Literal(`,"audiencesCount":`)
	w.Int(p.AudiencesCount)
	w.Literal(`,"createdAt":`)
	w.Time(p.CreatedAt)
	w.Literal(`,"updatedAt":`)
	w.Time(p.UpdatedAt)
	w.Literal(`,"deletedAt":`)
	w.NullableTime(p.DeletedAt)
	w.Member(`,"headerActionId":`, p.HeaderActionID)
}

// A pageList is a page of the list of pages. In it, each has title and status, and no
// metadata.
type pageList struct {
	pages  []atrium.Page
	more   bool
	limit  int
	cursor string // "" for none
}

func (l *pageList) AppendTo(w *appendjson.Writer) {
	w.Literal(`{"items":[`)
	for i := range l.pages {
		if i > 0 {
			w.Literal(",")
		}
		appendPage(w, &l.pages[i], true)
		w.Literal("}")
	}
	w.Literal(`],"hasMore":`)
	w.Bool(l.more)
	w.Literal(`,"limit":`)
	w.Int(int64(l.limit))
	if l.cursor != "" {
		w.Literal(`,"nextCursor":`)
		w.String(l.cursor)
	}
	w.Literal("}")
}

// A versionList is a page of the versions of an audience.
type versionList struct {
	versions []atrium.Version
	archived bool // each says whether it is
	more     bool
	total    int64
}

func (l *versionList) AppendTo(w *appendjson.Writer) {
	w.Literal(`{"items":[`)
	for i := range l.versions {
		v := &l.versions[i]
		if i > 0 {
			w.Literal(",")
		}
		w.Literal(`{"id":`)
		w.String(string(v.ID))
		w.Literal(`,"versionNumber":`)
		w.Int(v.Number)
		w.Literal(`,"createdAt":`)
		w.Time(v.CreatedAt)
		if l.archived {
			w.Literal(`,"archived":`)
			w.Bool(v.Archived)
		}
		w.Literal("}")
	}
	w.Literal(`],"page":{"hasMore":`)
	w.Bool(l.more)
	w.Literal(`,"totalCount":`)
	w.Int(l.total)
	w.Literal("}}")
}
