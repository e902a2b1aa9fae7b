package rest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"atrium"
)

func TestTagListsAreParsed(t *testing.T) {
	for _, c := range []struct {
		header []string
		want   []string // tags, with W/ if weak
	}{
		{nil, nil},
		{[]string{""}, nil},
		{[]string{`"a"`}, []string{"a"}},
		{[]string{` "a" `}, []string{"a"}},
		{[]string{`""`}, []string{""}},
		{[]string{`W/"a"`}, []string{"W/a"}},
		{[]string{`"a","b" , W/"c",  "d"`}, []string{"a", "b", "W/c", "d"}},
		{[]string{`,, "a" ,,"b",`}, []string{"a", "b"}},
		{[]string{`"a, b"`}, []string{"a, b"}},
		{[]string{`"W/"`}, []string{"W/"}},
		{[]string{`"*"`}, []string{"*"}},
		{[]string{`"a"`, `W/"b"`}, []string{"a", "W/b"}},
	} {
		var met []string
		if matches(c.header, func(weak bool, tag string) bool {
			if weak {
				tag = "W/" + tag
			}
			met = append(met, tag)
			return false
		}) {
			t.Errorf("%q matches, although no tag does", c.header)
		}
		if !slices.Equal(met, c.want) {
			t.Errorf("%q has the tags %q, want %q", c.header, met, c.want)
		}
	}
	for _, header := range [][]string{{"*"}, {" * "}, {`"a"`, "*"}} {
		if !matches(header, func(bool, string) bool { return false }) {
			t.Errorf("%q does not match everything", header)
		}
	}
}

func TestMalformedListOfTagsMatchesNothing(t *testing.T) {
	for _, header := range [][]string{
		{`x`}, {`"a`}, {`a"`}, {`w/"a"`}, {`W/ "a"`}, {`"a", *`}, {`*, "a"`}, {`"a" x`}, {`x "a"`}, {`"a""a"`}, {`"a" "a"`}, {`"a";q=1`},
		{`"a", x, "a"`}, {`"a"`, `x`}, {`x`, `"a"`}, {`*`, `x`}, {`"a", "`},
	} {
		if matches(header, func(bool, string) bool { return true }) {
			t.Errorf("%q matches", header)
		}
	}
}

func TestWeakTagsMatchReadsButNotChanges(t *testing.T) {
	for header, want := range map[string][2]bool{ // whether If-None-Match and If-Match match
		`"tag"`:          {true, true},
		`W/"tag"`:        {true, false},
		`"x", W/"tag"`:   {true, false},
		`"x", "tag"`:     {true, true},
		`W/"tag", "tag"`: {true, true},
		`*`:              {true, true},
		`"x"`:            {false, false},
		`tag`:            {false, false},
		`"Tag"`:          {false, false},
	} {
		if got := noneMatch([]string{header}, "tag"); got != want[0] {
			t.Errorf("If-None-Match %s: %v", header, got)
		}
		r := &Request{http: httptest.NewRequest(http.MethodPatch, "/", nil)}
		r.http.Header.Set("If-Match", header)
		err := r.CheckIfMatch(func(tag string) bool { return tag == "tag" })
		if (err == nil) != want[1] || err != nil && atrium.CodeOf(err) != atrium.CodePreconditionFailed {
			t.Errorf("If-Match %s: %v", header, err)
		}
	}
	r := &Request{http: httptest.NewRequest(http.MethodPatch, "/", nil)}
	if err := r.CheckIfMatch(func(string) bool { return false }); err != nil {
		t.Errorf("without If-Match: %v", err)
	}
}
