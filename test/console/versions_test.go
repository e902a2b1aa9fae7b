package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"atrium"
)

// audiencePath returns the path of the audience of the first tenant.
func (s *site) audiencePath() string {
	return "/console/" + string(s.tenants[0]) + "/pages/page_000000000000000000000000a1/audiences/audience_000000000000000000000000a1"
}

// version creates a version with a content in the console.
func (s *site) version(cookie, content string) {
	s.t.Helper()
	if a := s.ask(http.MethodPost, s.audiencePath()+"/versions", url.Values{"content": {content}}, cookie); a.StatusCode != http.StatusSeeOther {
		s.t.Fatal(a.Status, a.body)
	}
}

// page opens a page, and reports texts that it lacks, and those that it has.
func (s *site) page(cookie, path string, has, lacks []string) {
	s.t.Helper()
	a := s.ask(http.MethodGet, path, nil, cookie)
	if a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s %s", path, a.Status, a.body)
	}
	checkTexts(s.t, path, a.body, has, lacks)
}

func checkTexts(t *testing.T, what, body string, has, lacks []string) {
	t.Helper()
	for _, text := range has {
		if !strings.Contains(body, text) {
			t.Errorf("%s lacks %q: %s", what, text, body)
		}
	}
	for _, text := range lacks {
		if strings.Contains(body, text) {
			t.Errorf("%s has %q: %s", what, text, body)
		}
	}
}

func TestTheContentOfAVersionIsReadable(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		s.version(cookie, `{"headline":"<b>Meet</b> us","list":["one",{"<i>":"x"}],"site":"https://www.example.com/?a=1&b=2","bad":"javascript:alert(1)","other":"data:text/html,x","price":49.90,"nothing":""}`)
		s.page(cookie, s.audiencePath()+"/versions/2", []string{
			`<dt>headline</dt><dd><span class="text">&lt;b&gt;Meet&lt;/b&gt; us</span></dd>`,
			`<ul><li><span class="text">one</span></li><li><dl><dt>&lt;i&gt;</dt>`,
			`<a href="https://www.example.com/?a=1&amp;b=2" rel="noopener nofollow">`,
			`<span class="text">javascript:alert(1)</span>`, `<span class="value">49.90</span>`, `<dt>nothing</dt><dd><span class="quiet">empty</span>`,
			`<summary>JSON</summary>`, `data-copy-from="raw"`,
		}, []string{"<b>Meet", "<i>", `href="javascript:`, `href="data:`, "The content is large"})

		s.version(cookie, `[`+strings.Repeat(`{"a":"b"},`, 2000)+`"last"]`)
		a := s.ask(http.MethodGet, s.audiencePath()+"/versions/3", nil, cookie)
		if n := strings.Count(a.body, "<dt>a</dt>"); n < 100 || n > 300 || !strings.Contains(a.body, "The content is large. The JSON has the rest.") {
			t.Errorf("of a large content, %d members are laid out", n)
		}
	})
}

func TestVersionsAreComparedMemberByMember(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		s.version(cookie, `{"headline":"Meet <b>us</b> in Porto","<i>":"x","price":1,"list":["a","b"]}`)
		s.version(cookie, `{"headline":"Meet <b>us</b> in Lisbon","<i>":"x","price":1,"list":["new","a","b"],"text":""}`)
		s.page(cookie, s.audiencePath()+"/compare?from=2&to=3", []string{
			"3 fields differ.", `data-label="Version 2">Meet &lt;b&gt;us&lt;/b&gt; in <del>Porto</del></td>`, `in <ins>Lisbon</ins></td>`,
			`<th scope="row">list › 1</th>`, `<span class="quiet">not in this version</span>`, `<span class="quiet">empty</span>`,
			"4 fields are the same", "<dt>&lt;i&gt;</dt><dd>x</dd>",
		}, []string{"<b>us", "<i>"})
		s.page(cookie, s.audiencePath()+"/compare?from=3&to=3", []string{"No field differs.", "7 fields are the same"}, []string{"<table"})
	})
}

// transition changes the status of the page of the first tenant.
func (s *site) transition(cookie, action string) {
	s.t.Helper()
	page, _, _ := strings.Cut(s.audiencePath(), "/audiences/")
	if a := s.ask(http.MethodPost, page+"/"+action, nil, cookie); a.StatusCode != http.StatusSeeOther {
		s.t.Fatal(action, a.Status, a.body)
	}
}

func TestAVersionIsSavedAndPublishedAtOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		form := url.Values{"content": {`{"a":2}`}, "publish": {"yes"}}
		s.page(cookie, s.audiencePath(), []string{"Save as version 2<", "Save and publish<", "</b> shows it on <a", "which is a draft: visitors see it once the page is published."}, []string{"see this immediately"})
		if a := s.ask(http.MethodPost, s.audiencePath()+"/versions", form, cookie); a.Header.Get("Location") != s.audiencePath()+"?done=publishedlater" {
			t.Errorf("on a draft: %s %v", a.Status, a.Header)
		}
		s.transition(cookie, "publish")
		s.page(cookie, s.audiencePath(), []string{"Save as version 3<", "</a>. <small"}, []string{"a draft"})
		if a := s.ask(http.MethodPost, s.audiencePath()+"/versions", form, cookie); a.Header.Get("Location") != s.audiencePath()+"?done=published" {
			t.Errorf("on a published page: %s %v", a.Status, a.Header)
		}
		s.page(cookie, s.audiencePath(), []string{`/versions/3">Version 3</a> is what visitors of Spring see.`}, nil)
		form.Set("next", "3")
		form.Set("content", `{"a":"mine"}`)
		if a := s.ask(http.MethodPost, s.audiencePath()+"/versions", form, cookie); a.StatusCode != http.StatusPreconditionFailed ||
			!strings.Contains(a.body, "A version was saved since") || !strings.Contains(a.body, "mine") || !strings.Contains(a.body, "Save as version 4<") {
			t.Errorf("with another version since: %s %s", a.Status, a.body)
		}
		form.Del("next")
		form.Set("content", "{")
		if a := s.ask(http.MethodPost, s.audiencePath()+"/versions", form, cookie); a.StatusCode != http.StatusBadRequest || !strings.Contains(a.body, "Save and publish<") {
			t.Errorf("without valid JSON: %s", a.Status)
		}
		s.page(s.signIn(atrium.RoleViewer), s.audiencePath(), nil, []string{"Save ", ">Publish", "see this immediately"})
	})
}

// What visitors see immediately is said beside the button, and nowhere else.
func TestAPageSaysWhatVisitorsSeeAtOnce(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		page, _, _ := strings.Cut(s.audiencePath(), "/audiences/")
		const sentence = "Visitors of Spring see this immediately."
		times := func(path string, want int) {
			t.Helper()
			if a := s.ask(http.MethodGet, path, nil, cookie); strings.Count(a.body, sentence) != want {
				t.Errorf("%s says it %d times, want %d: %s", path, strings.Count(a.body, sentence), want, a.body)
			}
		}
		s.version(cookie, `{"a":2}`)
		times(s.audiencePath(), 0)
		times(s.audiencePath()+"/versions/2", 0)
		times(page, 1) // to publish it
		times(page+"/edit", 0)
		s.transition(cookie, "publish")
		times(page, 2) // to unpublish or archive it, and to delete it
		times(page+"/edit", 1)
		times(s.audiencePath(), 3) // to publish the newest one, another one, and a new one
		times(s.audiencePath()+"/versions/2", 1)
		if a := s.ask(http.MethodPost, s.audiencePath()+"/versions/1/publish", nil, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatal(a.Status, a.body)
		}
		times(s.audiencePath(), 4) // also to archive the audience
		times(s.audiencePath()+"/versions/1", 0)
		s.transition(cookie, "archive")
		times(page, 0)
		times(s.audiencePath(), 0)
	})
}

func TestAnAudienceSaysWhatIsLive(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie, viewer := s.signIn(atrium.RoleEditor), s.signIn(atrium.RoleViewer)
		own := s.audiencePath()
		s.page(viewer, own, []string{"Nothing is live: no version is published.", `/versions/1">Version 1</a> is the newest.`}, []string{"Compare with"})
		s.version(cookie, `{"a":1,"headline":"<b>"}`)
		if a := s.ask(http.MethodPost, own+"/versions/1/publish", nil, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatal(a.Status, a.body)
		}
		const by = ` Robin published it <a href="`
		s.page(viewer, own, []string{`Version 1</a> is published, but not live: the page is a draft.` + by, `Version 2</a> is newer and changes 1 field: headline.`, `href="` + own + `/compare?from=1&amp;to=2">Compare with version 1</a>`}, []string{"<b>", "Publish version"})
		s.transition(cookie, "publish")
		s.page(cookie, own, []string{`>live</span> <a href="` + own + `/versions/1">Version 1</a> is what visitors of Spring see.` + by, "Publish version 2<"}, nil)
		s.version(cookie, `{"a":1}`)
		s.page(cookie, own, []string{"Version 3</a> is newer, with the same content."}, nil)
		if a := s.ask(http.MethodPost, own+"/versions/3/archive", nil, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatal(a.Status, a.body)
		}
		s.page(cookie, own, []string{"Version 2</a> is newer", "Save as version 4<"}, nil)
		if a := s.ask(http.MethodPost, own+"/versions/2/publish", nil, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatal(a.Status, a.body)
		}
		s.page(cookie, own, []string{"Version 2</a> is what visitors"}, []string{"is newer"})
		if a := s.ask(http.MethodPost, own+"/archive", url.Values{"tag": {"*"}}, cookie); a.StatusCode != http.StatusSeeOther {
			t.Fatal(a.Status, a.body)
		}
		s.page(cookie, own, []string{"Version 2</a> is published, but not live: the audience is archived."}, []string{"Save as version", ">Publish"})
	})
}

// A schedule that would change nothing is neither accepted nor shown as if it would.
func TestSchedulesWithoutEffectAreNotPending(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		page, _, _ := strings.Cut(s.audiencePath(), "/audiences/")
		overview := "/console/" + string(s.tenants[0])
		const publish, unpublish, noEffect = `name="publishAt"`, `name="unpublishAt"`, "has no effect"
		schedule := func(status int, publishAt, unpublishAt string) {
			t.Helper()
			a := s.ask(http.MethodPost, page+"/schedule", url.Values{"publishAt": {publishAt}, "unpublishAt": {unpublishAt}}, cookie)
			if a.StatusCode != status || strings.Contains(a.body, noEffect) != (status == http.StatusConflict) {
				t.Errorf("%q and %q: %s %s", publishAt, unpublishAt, a.Status, a.body)
			}
		}
		const soon, late = "2999-01-01T00:00", "2999-01-02T00:00"

		s.page(cookie, page, []string{publish, unpublish}, nil)
		schedule(http.StatusConflict, "", late)
		schedule(http.StatusSeeOther, soon, late)
		s.page(cookie, page, []string{"Will be published", "Will be unpublished"}, []string{noEffect})
		s.page(cookie, overview, []string{"<small class=\"quiet\">publish ", "<small class=\"quiet\">unpublish "}, nil)

		s.transition(cookie, "publish")
		s.page(cookie, page, []string{"The page is published: the schedule to publish it", "Will be unpublished", unpublish}, []string{"Will be published", publish})
		s.page(cookie, overview, []string{"<small class=\"quiet\">unpublish "}, []string{"<small class=\"quiet\">publish "})
		schedule(http.StatusConflict, soon, late)
		schedule(http.StatusSeeOther, "", late)
		s.page(cookie, page, []string{"Will be unpublished"}, []string{noEffect})

		s.transition(cookie, "unpublish")
		s.page(cookie, page, []string{"The page is a draft: the schedule to unpublish it"}, []string{"Will be "})
		s.transition(cookie, "archive")
		s.page(cookie, page, []string{"The page is archived: the schedule to unpublish it", "Remove schedule"}, []string{"Will be ", publish, unpublish})
		s.page(cookie, overview, nil, []string{"Scheduled pages"})
		schedule(http.StatusConflict, soon, "")
		schedule(http.StatusSeeOther, "", "")
		s.page(cookie, page, []string{"Restore it to schedule it."}, []string{noEffect})
	})
}

// After a rollback, a new version starts from the content that visitors see, and the newest one can be chosen instead.
func TestANewVersionStartsFromTheRestoredOne(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		s.t = t
		cookie := s.signIn(atrium.RoleEditor)
		s.version(cookie, `{"headline":"second"}`)
		s.version(cookie, `{"headline":"third"}`)
		for _, number := range []string{"3", "2"} {
			s.page(cookie, s.audiencePath(), []string{`value="third"`, "It starts from version 3"}, []string{`value="second"`})
			if a := s.ask(http.MethodPost, s.audiencePath()+"/versions/"+number+"/publish", nil, cookie); a.StatusCode != http.StatusSeeOther {
				t.Fatal(a.Status, a.body)
			}
		}
		s.page(cookie, s.audiencePath(), []string{`value="second"`, "It starts from version 2, which is published.", `?base=3#new">Start from version 3</a>`}, []string{`value="third"`})
		s.page(cookie, s.audiencePath()+"?base=3", []string{`value="third"`, `?base=2#new">Start from version 2, which is published</a>`}, nil)
		for _, base := range []string{"0", "4", "-1", "x", "9223372036854775808"} {
			s.page(cookie, s.audiencePath()+"?base="+base, []string{"It starts from version 2"}, nil)
		}
		s.version(cookie, `{"headline":"fourth"}`)
		s.page(cookie, s.audiencePath(), []string{`value="fourth"`}, nil)
	})
}
