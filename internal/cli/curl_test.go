package cli_test

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// curls does what the curl lines in a text would do, and what the lines say that
// set variables for them. All that begins otherwise is prose. It knows what
// these lines need of the shell and of curl, and fails for anything else.
func curls(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 2 && !neg, "curls N FILE")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	text := strings.ReplaceAll(ts.ReadFile(args[1]), "\\\n", " ")
	variables := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		switch words := shellWords(ts, line, variables); {
		case strings.HasPrefix(line, "export "):
			name, value, _ := strings.Cut(words[1], "=")
			variables[name] = value
		case strings.HasPrefix(line, "curl "):
			n++
			status, body := do(ts, curlRequest(ts, words[1:]))
			ts.Logf("%d %s", status, body)
			if status >= http.StatusMultipleChoices {
				ts.Fatalf("status %d: %s", status, line)
			}
		}
	}
	if n != want {
		ts.Fatalf("%d lines", n)
	}
}

// curlRequest returns the request that curl makes of its arguments.
func curlRequest(ts *testscript.TestScript, words []string) *http.Request {
	var method, url, body string
	header := http.Header{}
	next := func() (word string) {
		if len(words) == 0 {
			ts.Fatalf("an option has no value")
		}
		word, words = words[0], words[1:]
		return word
	}
	for len(words) > 0 {
		switch word := next(); {
		case word == "-sw":
			next()
		case word == "-X":
			method = next()
		case word == "-H":
			name, value, _ := strings.Cut(next(), ":")
			header.Add(name, strings.TrimSpace(value))
		case word == "-d":
			body = next()
		case strings.HasPrefix(word, "-") || url != "":
			ts.Fatalf("no rule for %q", word)
		default:
			url = word
		}
	}
	if method == "" && body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	ts.Check(err)
	r.Header = header
	if body != "" && header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// shellWords splits a line as a shell does: words, ” and "", and $NAME outside
// of ”.
func shellWords(ts *testscript.TestScript, line string, variables map[string]string) (words []string) {
	var word strings.Builder
	begun, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			begun, quote = true, c
		case quote == 0 && (c == ' ' || c == '\n'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		case quote != '\'' && c == '$':
			name := line[i+1:]
			end := strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
			if end < 0 {
				end = len(name)
			}
			begun = true
			word.WriteString(variables[name[:end]])
			i += end
		case quote != '\'' && strings.IndexByte("\\`;|<>()!*?[]{}~", c) >= 0 && strings.HasPrefix(line, "curl "):
			if quote == 0 || c == '\\' || c == '`' {
				ts.Fatalf("a shell would make something of %q in %s", c, line)
			}
			word.WriteByte(c)
		case quote == 0 && c == '&' && strings.HasPrefix(line, "curl "):
			ts.Fatalf("a shell would end the command at & in %s", line)
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	return words
}
