package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	inlineLink = regexp.MustCompile(`\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	definition = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s.*)?$`)
	scheme     = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	anchorTag  = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
)

func TestRelativeLinksResolve(t *testing.T) {
	links := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name()[0] == '.') {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".md" {
			return nil
		}
		for n, line := range prose(read(t, file)) {
			for _, target := range targets(line) {
				links++
				if wrong := follow(t, file, target); wrong != "" {
					t.Errorf("%s, line %d: the link to %s %s", file, n+1, target, wrong)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 20 {
		t.Errorf("found only %d links", links)
	}
}

// prose returns the lines of a page, those of fenced blocks emptied.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	inBlock := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		if fence || inBlock {
			lines[i] = ""
		}
		inBlock = inBlock != fence
	}
	return lines
}

// targets returns the relative links of a line.
func targets(line string) (all []string) {
	line = codeSpan.ReplaceAllString(line, "")
	found := inlineLink.FindAllStringSubmatch(line, -1)
	if m := definition.FindStringSubmatch(line); m != nil {
		found = append(found, m)
	}
	for _, m := range found {
		if !scheme.MatchString(m[1]) && !strings.HasPrefix(m[1], "//") {
			all = append(all, m[1])
		}
	}
	return all
}

// follow returns the fault of a relative link in a file.
func follow(t *testing.T, file, target string) string {
	t.Helper()
	path, anchor, anchored := strings.Cut(target, "#")
	path, err := url.PathUnescape(path)
	if err != nil {
		return "is not well encoded"
	}
	if strings.HasPrefix(path, "/") {
		return "begins at the root of a server, which a file does not have"
	}
	to := file
	if path != "" {
		to = filepath.Join(filepath.Dir(file), path)
		inside, err := filepath.Rel(root, to)
		if err != nil || !filepath.IsLocal(inside) {
			return "leads out of the repository"
		}
		if _, err := os.Stat(to); err != nil {
			return "leads to no file"
		}
	}
	if !anchored {
		return ""
	}
	if filepath.Ext(to) != ".md" || !anchors(read(t, to))[anchor] {
		return "leads to no heading"
	}
	return ""
}

// anchors returns the anchors of a page's headings: lower case, without markup, hyphens
// for spaces, and numbered if they repeat.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	seen := map[string]int{}
	for _, line := range prose(text) {
		for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
			all[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		n := seen[slug]
		seen[slug]++
		if n > 0 {
			slug += "-" + strconv.Itoa(n)
		}
		all[slug] = true
	}
	return all
}
