package cli_test

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// curls runs the curl lines in a text, and the export lines that set variables for them. It ignores
// other lines. It supports only the syntax of the shell and of curl that these lines need, and
// fails on anything else.
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
			status, body := doRequest(ts, curlRequest(ts, words[1:]))
			ts.Logf("%d %s", status, body)
			if status >= http.StatusMultipleChoices {
				ts.Fatalf("status %d: %s", status, line)
			}
		}
	}
	if n != want {
		ts.Fatalf("%d curl lines, want %d", n, want)
	}
}

// curlRequest returns the request that curl would send for its arguments.
func curlRequest(ts *testscript.TestScript, words []string) *http.Request {
	var method, url, body string
	header := http.Header{}
	next := func() (word string) {
		if len(words) == 0 {
			ts.Fatalf("missing value of an option")
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
			ts.Fatalf("unsupported argument %q", word)
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

// shellWords splits a line like a shell: into words with quotes, and with $NAME outside of single
// quotes.
func shellWords(ts *testscript.TestScript, line string, variables map[string]string) (words []string) {
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			inWord, quote = true, c
		case quote == 0 && (c == ' ' || c == '\n'):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		case quote != '\'' && c == '$':
			name := line[i+1:]
			end := strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })
			if end < 0 {
				end = len(name)
			}
			inWord = true
			word.WriteString(variables[name[:end]])
			i += end
		case quote != '\'' && strings.IndexByte("\\`;|<>()!*?[]{}~", c) >= 0 && strings.HasPrefix(line, "curl "):
			if quote == 0 || c == '\\' || c == '`' {
				ts.Fatalf("unsupported shell syntax %q in %s", c, line)
			}
			word.WriteByte(c)
		case quote == 0 && c == '&' && strings.HasPrefix(line, "curl "):
			ts.Fatalf("unsupported shell syntax & in %s", line)
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	return words
}
