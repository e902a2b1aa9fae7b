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
			"3 members differ.", `data-label="Version 2">Meet &lt;b&gt;us&lt;/b&gt; in <del>Porto</del></td>`, `in <ins>Lisbon</ins></td>`,
			`<th scope="row">list › 1</th>`, `<span class="quiet">not in this version</span>`, `<span class="quiet">empty</span>`,
			"4 members are the same", "<dt>&lt;i&gt;</dt><dd>x</dd>",
		}, []string{"<b>us", "<i>"})
		s.page(cookie, s.audiencePath()+"/compare?from=3&to=3", []string{"No member differs.", "7 members are the same"}, []string{"<table"})
	})
}
