package canonical

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxSearched is how much of one text is looked at for its words, in bytes: all of a
// host name, and of a name of 255 characters in most scripts.
const maxSearched = 1 << 10

// Words yields the words by which a text is found, case-folded: what stands between
// white space, without the punctuation around it, and where there is punctuation
// inside, as in a domain, the parts on both sides as well. Some come twice.
func Words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range fields(text) {
			if !yield(word) {
				return
			}
			for part := range strings.FieldsFuncSeq(word, punctuation) {
				if part != word && !yield(part) {
					return
				}
			}
		}
	}
}

// Sought returns the words that somebody looks for, each once: those of Words
// without the parts.
func Sought(text string) (words []string) {
	seen := map[string]bool{}
	for word := range fields(text) {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// fields yields what stands between white space, without the punctuation around it.
func fields(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsSeq(Name(Cut(text, maxSearched))) {
			if word = strings.TrimFunc(word, punctuation); word != "" && !yield(word) {
				return
			}
		}
	}
}

// punctuation reports whether c is no part of a word in any script.
func punctuation(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsNumber(c) && !unicode.IsMark(c)
}

// Cut returns the longest prefix of a text with whole characters and no more than most
// bytes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Readable returns a canonical domain in the letters of its language, and any other
// text as it is.
func Readable(domain string) string {
	if len(domain) > maxHost || !strings.Contains(domain, "xn--") {
		return domain
	}
	text, err := idna.Lookup.ToUnicode(domain)
	if err != nil {
		return domain
	}
	return text
}
