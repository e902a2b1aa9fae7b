package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// suite returns the cases of the JSON test suite whose names begin with one of the
// letters, by name (see internal/strictjson).
func suite(t *testing.T, letters string) map[string]string {
	t.Helper()
	file, err := os.Open("../internal/strictjson/testdata/jsontestsuite/parsing.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cases := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c struct{ Name, Input string }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(letters, c.Name[:1]) {
			cases[c.Name] = c.Input
		}
	}
	return cases
}

// broken are bodies that no operation accepts, in addition to notStrict.
func broken(t *testing.T) map[string]string {
	t.Helper()
	all := suite(t, "n")
	for body := range notStrict {
		all[body] = body
	}
	for name, body := range map[string]string{
		"100,000 arrays":               strings.Repeat("[", 100_000),
		"100,000 arrays that end":      strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"100,000 objects":              strings.Repeat(`{"":`, 100_000),
		"100,000 objects that end":     strings.Repeat(`{"":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"arrays and objects":           strings.Repeat(`[{"":`, 50_000),
		"a number of 1 MiB":            strings.Repeat("9", 1<<20),
		"a member of 1 MiB of digits":  `{"a":` + strings.Repeat("9", 1<<20-5),
		"a name of 1 MiB":              `{"` + strings.Repeat("a", 1<<20-2),
		"1 MiB of white space":         strings.Repeat(" ", 1<<20-1) + "x",
		"1 MiB of quotes":              strings.Repeat(`"`, 1<<20),
		"1 MiB of backslashes":         `{"a":"` + strings.Repeat(`\`, 1<<20-6),
		"1 MiB of commas":              "{" + strings.Repeat(",", 1<<20-1),
		"100,000 of the same name":     "{" + strings.Repeat(`"a":1,`, 100_000) + `"a":1}`,
		"a byte order mark":            "\xef\xbb\xbf",
		"half a byte order mark":       "\xef\xbb{}",
		"invalid UTF-8 in an array":    "{\"a\":[\xff]}",
		"invalid UTF-8 in a number":    "{\"a\":1\xe5}",
		"invalid UTF-8 in an exponent": "{\"a\":1e\xe5}",
		"invalid UTF-8 in an escape":   "{\"a\":\"\\u\xe5\"}",
		"invalid UTF-8 in a name":      "{\"\xb9\":0}",
		"an overlong slash":            "{\"a\":\"\xe0\x80\xaf\"}",
		"an overlong NUL of 6 bytes":   "{\"a\":\"\xfc\x80\x80\x80\x80\x80\"}",
		"a name with an overlong NUL":  "{\"\xc0\x80\":0}",
		"a surrogate pair in UTF-8":    "{\"a\":\"\xed\xa0\xbd\xed\xb8\x80\"}",
		"beyond Unicode":               "{\"a\":\"\xf4\x90\x80\x80\"}",
		"a cut character":              "{\"a\":\"\xe2\x82\"}",
		"UTF-16, big endian":           "\x00{\x00}",
		"UTF-16 with its mark":         "\xfe\xff\x00{\x00}",
		"UTF-32":                       "{\x00\x00\x00}\x00\x00\x00",
	} {
		all[name] = body
	}
	return all
}

func TestEveryOperationRejectsInvalidJSON(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client, broken := newClient(t), broken(t)
		before := s.export(t, s.north)
		asked := 0
		for _, o := range operations(t) {
			if !o.takesJSON {
				continue
			}
			target := parameter.ReplaceAllString(o.path, "none")
			for name, body := range broken {
				if body == "" && !o.needsBody {
					continue
				}
				a := s.ask(t, client, o.method, target, body)
				if a.status != 400 || body != "" && strings.Contains(placesOf(a), " ") {
					t.Errorf("%s %s with %.80q: %s, want a 400 with one fault", o.method, target, name, clip(a.String()))
				}
				asked++
			}
		}
		t.Logf("asked %d times", asked)
		if asked < 20*len(broken) {
			t.Errorf("asked %d times with %d bodies", asked, len(broken))
		}
		if after := s.export(t, s.north); !slices.Equal(before, after) {
			t.Error("what was refused has changed something")
		}
	})
}

func TestMemberNamesAreCaseSensitive(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client := newClient(t)
		for _, o := range operations(t) {
			target := parameter.ReplaceAllString(o.path, "none")
			for _, member := range o.members {
				upper := string(unicode.ToUpper(rune(member[0]))) + member[1:]
				for _, other := range []string{upper, strings.ToUpper(member), member + " ", " " + member, member + `\u0000`, strings.Replace(member, "i", "ı", 1)} {
					if other == member {
						continue
					}
					a := s.ask(t, client, o.method, target, `{"`+other+`":null}`)
					if isManaged(target) { // unknown in the management API
						if a.status != 400 || !strings.Contains(string(a.body), `"is not a known field"`) {
							t.Errorf("%s %s accepts %q: %s", o.method, target, other, a)
						}
					} else if a.status != 400 || placesOf(a) != "/name" && placesOf(a) != "/payload /source" { // missing members
						t.Errorf("%s %s accepts %q: %s", o.method, target, other, a)
					}
				}
			}
		}
	})
}

// kept are values that a payload may have, which must be returned unchanged.
func kept(t *testing.T) map[string]string {
	t.Helper()
	all := suite(t, "yi")
	for name := range all {
		if slices.Contains([]string{"y_object_duplicated_key", "y_object_duplicated_key_and_value", "i_structure_500_nested_arrays", "i_structure_UTF-8_BOM_empty_object"}, name) ||
			strings.Contains(name, "surrogate") && name[0] == 'i' {
			delete(all, name)
		}
	}
	for _, value := range []string{
		"-0", "-0.0", "0e0", "1e400", "-1E+400", "1e-400", "1e999999999999999999999", "0.1", "1.0", "1.10", "9007199254740993",
		strings.Repeat("1234567890", 4), "0." + strings.Repeat("1234567890", 4), "-" + strings.Repeat("9", 1<<20-200),
		`"\u0000"`, `{"\u0000":"\u0000","":""}`, `"\/\b\f\n\r\t\"\\"`, `"/"`, `"\u002f\u002F"`, `"\ud83d\ude00 😀"`, "\"\u2028\u2029\x7f\u0080\ufeff\uffff\"",
		`"\uffff\ufdd0"`, `{"é":1,"e\u0301":2,"É":3}`, `{"a":1,"A":2,"\u00e1":3}`, `{"b":1,"a":2,"c":{"z":1,"y":2}}`, `[]`, `{}`, `[[],{}]`, `{ "a" : [ 1 , 2 ] }`,
		" \t\r\n1\n\r\t ", "1" + strings.Repeat(" \t\r\n", 1<<18-100), strings.Repeat("[", 60) + strings.Repeat("]", 60), `{"__proto__":1,"constructor":{}}`,
		`"` + strings.Repeat(`\u0000`, 1000) + `"`, `"'; DROP TABLE entries; -- $1 ? %s"`, `"</script>&lt;"`, `true`, `false`, `null`,
	} {
		all[value] = value
	}
	return all
}

func TestPayloadIsReturnedByteForByte(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client := newClient(t)
		back := func(name, id, payload string) {
			t.Helper()
			a := s.ask(t, client, "GET", "/manage/v0/account_logs/"+id+"/payload", "")
			if a.status != 200 || string(a.body) != payload {
				t.Errorf("%.80q: %.200q came back as %s", name, payload, clip(a.String()))
			}
		}
		for name, value := range kept(t) {
			payload := `{"v":` + value + `}`
			a := s.ask(t, client, "POST", "/v0/account_logs", `{"source":"kept","payload":`+payload+`}`)
			var made struct{ AccountLogID string }
			if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
				t.Errorf("%.80q: %s, %v", name, clip(a.String()), err)
				continue
			}
			back(name, made.AccountLogID, payload)
			if len(payload) > 1<<16 {
				continue
			}
			a = s.ask(t, client, "POST", "/manage/v0/account_logs", `{"entries":[{"source":"kept","payload":`+payload+`}]}`)
			var all struct {
				Outcomes []struct{ AccountLogID string }
			}
			if err := json.Unmarshal(a.body, &all); err != nil || len(all.Outcomes) != 1 || all.Outcomes[0].AccountLogID == "" {
				t.Errorf("%.80q, as one of many: %s, %v", name, clip(a.String()), err)
				continue
			}
			back(name, all.Outcomes[0].AccountLogID, payload)
		}
	})
}

func TestInvalidPayloadIsRejected(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		client := newClient(t)
		for name, value := range suite(t, "n") {
			for _, r := range []struct{ target, form string }{
				{"/v0/account_logs", `{"source":"refused","payload":{"v":%s}}`},
				{"/manage/v0/account_logs", `{"entries":[{"source":"refused","payload":{"v":%s}}]}`},
			} {
				if a := s.ask(t, client, "POST", r.target, fmt.Sprintf(r.form, value)); a.status != 400 {
					t.Errorf("%s: %s, want a 400", name, clip(a.String()))
				}
			}
		}
		if n := s.count(t, s.north, `"source":"refused"`); n != 0 {
			t.Errorf("%d are stored", n)
		}
	})
}
