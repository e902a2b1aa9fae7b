package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
)

var contents = []guarantee{
	{"published content has only what is published", contentPublished},
	{"the audiences of published content are the newest ones and bounded in number", contentAudiencesBounded},
	{"the audiences of published content are bounded in bytes, and each is complete", contentBytesBounded},
	{"published content of another tenant is NotFound", contentOfAnother},
	{"if only public content may be read, other content is NotFound", contentPublic},
	{"the settings of public pages are stored, exported and audited", publicSettings},
}

func (e *env) transition(t tb, id atrium.PageID, transition atrium.PageTransition) {
	t.Helper()
	if _, err := e.TakePage(t.Context(), e.change(), id, transition, accept); err != nil {
		t.Fatalf("%s: %v", transition, err)
	}
}

// publishedPage creates a published page with an audience whose version 1 is published.
func (e *env) publishedPage(t tb) (atrium.ScheduledPage, atrium.Audience) {
	t.Helper()
	p := e.createPage(t)
	u := e.createAudience(t, p.ID, "Visitors")
	e.createVersion(t, u, `{"n":1}`)
	e.publish(t, u, 1)
	e.transition(t, p.ID, atrium.PagePublish)
	return p, u
}

// shown returns the contents of the audiences of a page, and checks that each audience alone has the
// same, or that all are NotFound if the page is.
func (e *env) shown(t tb, page atrium.PageID, audiences ...atrium.Audience) (contents []string) {
	t.Helper()
	c, err := e.PublishedContent(t.Context(), e.tenant, page, false)
	if err != nil {
		wantCode(t, err, atrium.CodeNotFound)
		contents = []string{"not found"}
	}
	byID := map[atrium.AudienceID]atrium.AudienceContent{}
	for _, u := range c.Audiences {
		contents = append(contents, string(u.Content))
		byID[u.AudienceID] = u
	}
	for _, u := range audiences {
		got, err := e.PublishedAudience(t.Context(), e.tenant, page, u.ID, false)
		want, ok := byID[u.ID]
		if !ok {
			wantCode(t, err, atrium.CodeNotFound)
			continue
		}
		want.Public, want.MaxAge = c.Public, c.MaxAge
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the audience is %+v, %v, in the page %+v", got, err, want)
		}
	}
	return contents
}

func (e *env) wantShown(t tb, page atrium.PageID, audiences []atrium.Audience, want ...string) {
	t.Helper()
	if got := e.shown(t, page, audiences...); !slices.Equal(got, want) {
		t.Errorf("shown is %q, want %q", got, want)
	}
}

func contentPublished(t *testing.T, e *env) {
	p := e.createPage(t)
	first := e.createAudience(t, p.ID, "First")
	e.clock.step(time.Second)
	second := e.createAudience(t, p.ID, "Second")
	all := []atrium.Audience{first, second}
	for _, u := range all {
		for n := range 2 {
			e.createVersion(t, u, fmt.Sprintf(`{"%s":%d}`, u.Name, n+1))
		}
	}
	e.publish(t, first, 1)
	e.wantShown(t, p.ID, all, "not found") // a draft
	e.transition(t, p.ID, atrium.PagePublish)
	e.wantShown(t, p.ID, all, `{"First":1}`)
	e.publish(t, second, 2)
	e.wantShown(t, p.ID, all, `{"Second":2}`, `{"First":1}`)
	e.publish(t, first, 2)
	e.wantShown(t, p.ID, all, `{"Second":2}`, `{"First":2}`)
	e.archiveAudience(t, second, true)
	e.wantShown(t, p.ID, all, `{"First":2}`)
	e.archiveAudience(t, second, false)
	e.transition(t, p.ID, atrium.PageUnpublish)
	e.wantShown(t, p.ID, all, "not found")
	e.transition(t, p.ID, atrium.PagePublish)
	if err := e.DeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	e.wantShown(t, p.ID, all, "not found")
	if _, err := e.UndeletePage(t.Context(), e.change(), p.ID, accept); err != nil {
		t.Fatal(err)
	}
	c, err := e.PublishedContent(t.Context(), e.tenant, p.ID, false)
	want := atrium.Content{
		PageID: p.ID, BrandID: p.BrandID, Title: p.Title, Actions: p.Actions, Scripts: p.Scripts, FooterLinks: p.FooterLinks,
		Audiences: c.Audiences,
	}
	if err != nil || len(c.Audiences) != 2 || !reflect.DeepEqual(c, want) {
		t.Errorf("the content is %+v, %v, want %+v", c, err, want)
	}
	e.transition(t, p.ID, atrium.PageArchive)
	e.wantShown(t, p.ID, all, "not found")
	e.wantShown(t, atrium.NewID[atrium.PageID](), all, "not found")
}

func contentAudiencesBounded(t *testing.T, e *env) {
	p := e.newPage(atrium.PagePublished)
	e.put(t, p)
	for n := range atrium.MaxContentAudiences + 1 {
		u := e.newAudience(p, false)
		u.CreatedAt += atrium.Time(1000 * (n / 2)) // two at the same time
		v := published(e.newVersion(u, 1))
		v.Content = fmt.Appendf(nil, "%d", n)
		e.put(t, u, v, e.newAudience(p, false))
	}
	c, err := e.PublishedContent(t.Context(), e.tenant, p.ID, false)
	if err != nil || len(c.Audiences) != atrium.MaxContentAudiences || !c.More {
		t.Fatalf("%d audiences, more: %v, %v", len(c.Audiences), c.More, err)
	}
	for i, u := range c.Audiences {
		if want := strconv.Itoa(atrium.MaxContentAudiences - i); string(u.Content) != want {
			t.Fatalf("audience %d has %s, want %s", i, u.Content, want)
		}
	}
}

func contentBytesBounded(t *testing.T, e *env) {
	p := e.newPage(atrium.PagePublished)
	e.put(t, p)
	var want [][]byte
	for n := range 4 {
		e.clock.step(time.Second)
		u := e.newAudience(p, false)
		v := published(e.newVersion(u, 1))
		v.Content = fmt.Appendf(nil, `"%s"`, strings.Repeat(strconv.Itoa(n), 400<<10))
		if n == 3 {
			v.Content = nil
		}
		want = slices.Insert(want, 0, v.Content)
		e.put(t, u, v)
	}
	c, err := e.PublishedContent(t.Context(), e.tenant, p.ID, false)
	if err != nil || len(c.Audiences) != 4 || c.More {
		t.Fatalf("%d audiences, more: %v, %v", len(c.Audiences), c.More, err)
	}
	for i, u := range c.Audiences {
		if !bytes.Equal(u.Content, want[i]) || (u.Content == nil) != (want[i] == nil) {
			t.Errorf("audience %d has %d bytes, want %d", i, len(u.Content), len(want[i]))
		}
	}
	e.clock.step(time.Second)
	u := e.newAudience(p, false)
	e.put(t, u, published(e.newVersion(u, 1)))
	if c, err = e.PublishedContent(t.Context(), e.tenant, p.ID, false); err != nil || len(c.Audiences) != 5 || c.More {
		t.Errorf("%d audiences, more: %v, %v, want the one that reaches the limit", len(c.Audiences), c.More, err)
	}
	e.clock.step(-time.Hour)
	u = e.newAudience(p, false)
	e.put(t, u, published(e.newVersion(u, 1)))
	if c, err = e.PublishedContent(t.Context(), e.tenant, p.ID, false); err != nil || len(c.Audiences) != 5 || !c.More {
		t.Errorf("%d audiences, more: %v, %v, want none after the limit", len(c.Audiences), c.More, err)
	}
}

func contentPublic(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	_, err := e.PublishedContent(t.Context(), e.tenant, p.ID, true)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = e.PublishedAudience(t.Context(), e.tenant, p.ID, u.ID, true)
	wantCode(t, err, atrium.CodeNotFound)
	if _, err := e.UpdatePage(t.Context(), e.change(), p.ID, atrium.PageEdit{Public: pointer(true)}, accept); err != nil {
		t.Fatal(err)
	}
	if c, err := e.PublishedContent(t.Context(), e.tenant, p.ID, true); err != nil || len(c.Audiences) != 1 {
		t.Errorf("the public page is %+v, %v", c, err)
	}
	if got, err := e.PublishedAudience(t.Context(), e.tenant, p.ID, u.ID, true); err != nil || string(got.Content) != `{"n":1}` {
		t.Errorf("the audience of the public page is %+v, %v", got, err)
	}
}

func contentOfAnother(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	other, mine := e.as(e.newTenant(t)), e.createPage(t)
	other.wantShown(t, p.ID, []atrium.Audience{u}, "not found")
	_, err := e.PublishedAudience(t.Context(), e.tenant, mine.ID, u.ID, false)
	wantCode(t, err, atrium.CodeNotFound)
}

func publicSettings(t *testing.T, e *env) {
	p, u := e.publishedPage(t)
	edit := atrium.PageEdit{Public: pointer(true), MaxAge: pointer(int64(atrium.MaxMaxAge))}
	changed, err := e.UpdatePage(t.Context(), e.change(), p.ID, edit, accept)
	if err != nil || !changed.Public || changed.MaxAge != atrium.MaxMaxAge {
		t.Fatalf("changed to %+v, %v", changed, err)
	}
	e.wantPage(t, changed)
	listed, _, err := e.Pages(t.Context(), e.tenant, "", nil, 10)
	if err != nil || len(listed) != 1 || !listed[0].Public || listed[0].MaxAge != atrium.MaxMaxAge {
		t.Errorf("listed %+v, %v", listed, err)
	}
	c, err := e.PublishedContent(t.Context(), e.tenant, p.ID, false)
	if err != nil || !c.Public || c.MaxAge != atrium.MaxMaxAge {
		t.Errorf("the content is %+v, %v", c, err)
	}
	e.wantShown(t, p.ID, []atrium.Audience{u}, `{"n":1}`)
	acts := e.auditRecords(t, string(p.ID))
	if got := fmt.Sprint(acts[len(acts)-1].detail); got != "map[after:map[maxAgeSeconds:86400 public:true] before:map[maxAgeSeconds:0 public:false]]" {
		t.Errorf("recorded %s", got)
	}
	other := e.as(e.newTenant(t))
	for _, r := range e.records(t) {
		other.put(t, r)
	}
	copied := other.page(t, p.ID)
	if !copied.Public || copied.MaxAge != atrium.MaxMaxAge {
		t.Errorf("imported %+v", copied)
	}
}
