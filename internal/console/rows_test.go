package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// formOf returns what a browser sends for the rows of a list that nobody has changed.
func formOf(list rowList) url.Values {
	form := url.Values{}
	for _, r := range list.Rows {
		if r.Position > 0 {
			form.Set(r.Prefix+":position", showCount(int64(r.Position)))
		}
		for _, f := range r.Fields {
			switch {
			case f.Kind != memberCheck:
				form.Set(f.Name, strings.ReplaceAll(lines(f.Value), "\n", "\r\n"))
			case f.Checked:
				form.Set(f.Name, "true")
			}
		}
		for _, inner := range r.Lists {
			for name, values := range formOf(inner) {
				form[name] = values
			}
		}
	}
	return form
}

func TestFieldsChangeTheElementsOfAList(t *testing.T) {
	const (
		call = `{"actionId":"call","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://a.example","color":1.50}`
		docs = `{"actionId":"docs","actionIndex":1,"purpose":"secondary","buttonTitle":"Docs","actionType":"link","url":"https://b.example"}`
		menu = `{"id":"company","title":"Company","links":[{"id":"about","text":"About","url":"https://a.example"}]}`
	)
	for _, test := range []struct {
		name, list, before string
		form               url.Values
		want               string
	}{
		{"nothing", "actions", "[" + call + ", " + docs + "]", nil, "[" + call + ", " + docs + "]"},
		{
			"a text changes, the rest stays as it is", "actions", "[" + call + "]", url.Values{"actions:0:buttonTitle": {" Call us "}},
			"[" + strings.Replace(call, "Book a call", "Call us", 1) + "]",
		},
		{
			"a new element is complete", "actions", "[" + docs + "]", url.Values{"actions:1:buttonTitle": {"Docs"}, "actions:1:url": {"https://c.example"}},
			`[` + strings.Replace(docs, `"actionIndex":1`, `"actionIndex":0`, 1) +
				`,{"actionId":"docs-2","actionIndex":1,"buttonTitle":"Docs","url":"https://c.example","purpose":"primary","actionType":"link"}]`,
		},
		{"an element is removed", "footerLinks", "[" + menu + "]", url.Values{"footerLinks:0:remove": {"true"}}, "[]"},
		{
			"an element moves forward", "actions", "[" + call + "," + docs + "]", url.Values{"actions:1:position": {"1"}},
			"[" + strings.Replace(docs, `"actionIndex":1`, `"actionIndex":0`, 1) + "," + strings.Replace(call, `"actionIndex":0`, `"actionIndex":1`, 1) + "]",
		},
		{
			"an element moves backward", "actions", "[" + call + "," + docs + "]", url.Values{"actions:0:position": {"2"}},
			"[" + strings.Replace(docs, `"actionIndex":1`, `"actionIndex":0`, 1) + "," + strings.Replace(call, `"actionIndex":0`, `"actionIndex":1`, 1) + "]",
		},
		{
			"a list in an element", "footerLinks", "[" + menu + "]", url.Values{"footerLinks:0:links:1:text": {"Jobs & more"}},
			`[{"id":"company","title":"Company","links":[{"id":"about","text":"About","url":"https://a.example"},{"id":"jobs-more","text":"Jobs & more"}]}]`,
		},
		{
			"a box", "scripts", `[{"name":"analytics","enabled":true}]`, url.Values{"scripts:0:enabled": nil, "scripts:0:content": {"a()\r\nb()"}},
			`[{"name":"analytics","enabled":false,"content":"a()\nb()"}]`,
		},
		{"a new script does not run", "scripts", `[]`, url.Values{"scripts:0:name": {"x"}}, `[{"name":"x","injectionPoint":"head","enabled":false}]`},
		{"no title", "footerLinks", `[]`, url.Values{"footerLinks:0:links:0:url": {"/a"}}, `[{"id":"group","links":[{"id":"link","url":"/a"}]}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := shapes[test.list]
			rows := s.rows(test.list, test.before)
			if rows == nil {
				t.Fatal("no rows")
			}
			form := formOf(*rows)
			for name, values := range test.form {
				if form[name] = values; values == nil {
					delete(form, name)
				}
			}
			got, err := s.build(test.list, jsontext.Value(test.before), form)
			if err != nil || string(got) != test.want {
				t.Errorf("%s %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestElementsOfAnotherFormHaveNoFields(t *testing.T) {
	for _, list := range []string{
		`[1]`, `["link"]`, `[null]`, `{}`, `[`, `[{"buttonTitle":1}]`, `[{"url":null}]`, `[` + strings.Repeat(`{},`, maxRows) + `{}]`,
		`["` + strings.Repeat("x", maxRowBytes) + `"]`,
	} {
		if shapes["actions"].rows("actions", list) != nil {
			t.Errorf("%.40s has fields", list)
		}
	}
	if shapes["footerLinks"].rows("footerLinks", `[{"links":[1]}]`) != nil || shapes["scripts"].rows("scripts", `[{"enabled":"yes"}]`) != nil {
		t.Error("a member of another form has a field")
	}
}

func TestAPositionMustBeANumber(t *testing.T) {
	_, err := shapes["actions"].build("actions", jsontext.Value(`[{}]`), url.Values{"actions:0:position": {"first"}})
	if err == nil || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("got %v", err)
	}
}

func FuzzFieldsThatStayTheSameChangeNothing(f *testing.F) {
	f.Add("actions", `[{"buttonTitle":"a\r\nb","url":"\/x","n":1.0}, {}]`)
	f.Add("footerLinks", `[{"links":[{},{"text":"ä","x":{"y":[1e2]}}]}]`)
	f.Add("scripts", `[{"enabled":true,"content":"\n\n"}]`)
	f.Fuzz(func(t *testing.T, name, list string) {
		s := shapes[name]
		if s == nil {
			return
		}
		rows := s.rows(name, list)
		if rows == nil {
			return
		}
		form := formOf(*rows)
		for field, values := range form {
			// Texts of one line are sent without surrounding white space and line breaks.
			if before := values[0]; before != strings.TrimSpace(strings.ReplaceAll(before, "\r\n", " ")) {
				delete(form, field)
			}
		}
		got, err := s.build(name, jsontext.Value(list), form)
		if err != nil || string(got) != list {
			t.Errorf("%s became %s, %v", list, got, err)
		}
	})
}

func TestTextsOfAContentChangeWithoutJSON(t *testing.T) {
	const content = `{
  "hero": {
    "headline": "Ship faster",
    "price": 1.50
  },
  "points": [
    "one",
    "two"
  ],
  "a/b": ""
}`
	var titles []string
	for _, text := range contentTexts(content) {
		titles = append(titles, text.Title+"="+text.Value)
	}
	if got := strings.Join(titles, "; "); got != "hero › headline=Ship faster; points › 1=one; points › 2=two; a/b=" {
		t.Errorf("the texts are %s", got)
	}
	form := url.Values{"text:/hero/headline": {"Ship \"today\"\r\nnow"}, "text:/points/1": {"two"}, "text:/a~1b": {"x"}}
	want := strings.Replace(strings.Replace(content, `"Ship faster"`, `"Ship \"today\"\nnow"`, 1), `"a/b": ""`, `"a/b": "x"`, 1)
	if got, err := changeTexts(content, form); err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
	if got, err := changeTexts(`{"a":"b\r\n", "n": 1.0}`, url.Values{"text:/a": {"b\r\n"}}); err != nil || got != `{"a":"b\r\n", "n": 1.0}` {
		t.Errorf("an equal text changed the content to %s, %v", got, err)
	}
	for _, other := range []string{``, `{`, `["` + strings.Repeat("x", maxRowBytes) + `"]`, `[` + strings.Repeat(`"",`, maxRows) + `""]`} {
		if contentTexts(other) != nil {
			t.Errorf("%.20s has fields", other)
		}
	}
}

// The content comes from a form. Without bounds, a small one would cost minutes, or hundreds of megabytes.
func TestTextsOfHostileContentsAreBounded(t *testing.T) {
	for name, content := range map[string]string{
		"long name, many texts": `{"` + strings.Repeat("~", 16_000) + `":[` + strings.Repeat(`"",`, 5_000) + `""]}`,
		"many texts":            `[` + strings.Repeat(`"",`, 10_000) + `""]`,
		"deep":                  strings.Repeat(`{"`+strings.Repeat("k", 100)+`":`, 60) + `""` + strings.Repeat("}", 60),
		"large":                 `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		calls, bytes := 0, 0
		got, err := eachText(content, func(pointer jsontext.Pointer, text string) string {
			calls++
			bytes += len(pointer)
			return text + "!"
		})
		if err == nil || got != content || calls > maxRows || bytes > maxRows*maxPointer {
			t.Errorf("%s: %d calls with %d bytes of pointers, %v", name, calls, bytes, err)
		}
		if contentTexts(content) != nil {
			t.Errorf("%s: it has fields", name)
		}
	}
	large := jsontext.Value(`[{"buttonTitle":"` + strings.Repeat("x", maxRowBytes) + `"}]`)
	if got, err := shapes["actions"].build("actions", large, url.Values{"actions:0:remove": {"true"}}); err != nil || string(got) != string(large) {
		t.Errorf("a list without fields is changed, %v", err)
	}
}

func FuzzTextsThatStayTheSameChangeNothing(f *testing.F) {
	f.Add(`{"a":["x",{"~/":"y"}],"n":1e400}`)
	f.Add(`"top"`)
	f.Fuzz(func(t *testing.T, content string) {
		form := url.Values{}
		for _, text := range contentTexts(content) {
			form.Set(text.Name, strings.ReplaceAll(lines(text.Value), "\n", "\r\n"))
		}
		if got, _ := changeTexts(content, form); got != content {
			t.Errorf("%q became %q", content, got)
		}
	})
}
