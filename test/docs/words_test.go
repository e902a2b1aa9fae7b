package docs_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refusedWords are wrong everywhere in code and docs: archaic or vague words, and British
// spellings. The value is the replacement.
var refusedWords = map[string]string{
	`whoever|whomever|anybody`:        "the subject that acts",
	`meanwhile`:                       "in the meantime, or nothing",
	`anew`:                            "again",
	`seldom`:                          "rarely",
	`any more`:                        "no longer",
	`hitherto|lest|wholly|whatsoever`: "a common word",
	`mended`:                          "fixed",
	`throw-away`:                      "temporary",
	`behaviours?`:                     "behavior",
	`colours?`:                        "color",
	`favour(?:s|ed|ite)?`:             "prefer, favor",
	`honours?|honoured`:               "support or apply",
	`organisations?`:                  "organization",
	`licences?`:                       "license",
	`neighbours?`:                     "neighbor",
	`grey`:                            "gray",
	`cancelled|cancelling`:            "canceled, canceling",
	`misspelt`:                        "misspelled",
	`artefacts?`:                      "artifact",
	`(?:author|canonical|final|initial|minim|maxim|normal|optim|organ|real|recogn|serial|summar|synchron)is(?:e|es|ed|ing|ation)`: "-ize",
}

// Names and titles that contain a refused word.
var allowedPhrases = []string{"Colour schemes"}

func TestRefusedWordsDoNotOccur(t *testing.T) {
	if !refused.Match(wrapped.ReplaceAll([]byte("not any\n\t// more"), []byte(" "))) {
		t.Fatal("a refused phrase is not found in a wrapped comment")
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		skipped := []string{"bin", "dist"}
		if d.IsDir() {
			if slices.Contains(skipped, name) || d.Name() == "fuzz" || d.Name() == "node_modules" || path != root && d.Name()[0] == '.' {
				return filepath.SkipDir
			}
			return nil
		}
		if name == "LICENSE" || name == "test/docs/words_test.go" || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(text, 0) >= 0 { // binary
			return err
		}
		files++
		text = wrapped.ReplaceAll(text, []byte(" "))
		for _, phrase := range allowedPhrases {
			text = bytes.ReplaceAll(text, []byte(phrase), nil)
		}
		for _, word := range refused.FindAll(text, -1) {
			t.Errorf("%s has %q, use %s", name, word, replacement(string(word)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("read only %d files", files)
	}
}

// wrapped matches a line break, with the mark of a comment on the next line.
var wrapped = regexp.MustCompile(`\r?\n[ \t]*(?://|#)?[ \t]*`)

var refused = regexp.MustCompile(`(?i)\b(?:` + strings.Join(slices.Sorted(maps.Keys(refusedWords)), "|") + `)\b`)

// replacement returns what to write instead of a refused word.
func replacement(word string) string {
	for pattern, use := range refusedWords {
		if regexp.MustCompile(`(?i)^(?:` + pattern + `)$`).MatchString(word) {
			return use
		}
	}
	return ""
}
