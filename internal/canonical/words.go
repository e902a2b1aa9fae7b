package canonical

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxSearched is the number of bytes of a text that are searched for words. It covers every
// host name, and in most scripts every name of 255 characters.
const maxSearched = 1 << 10

// Words yields the case-folded words of a text for a search index. Words are separated by
// white space, and the punctuation around them is removed. A word with inner punctuation,
// such as a domain, is yielded whole and in parts. Words may be yielded more than once.
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

// Limits of the words by which an account is found.
const (
	MaxWords      = 32
	MaxFieldWords = 10 // of one field, except the name
)

// countWords returns the maximum number of words by which an account with the domain and name is
// found.
func countWords(domain, name string) (n int) {
	for range Words(domain) {
		if n++; n == MaxFieldWords {
			break
		}
	}
	if strings.Contains(domain, "xn--") {
		n *= 2 // its words in Unicode
	}
	for range Words(name) {
		if n++; n >= MaxWords {
			break
		}
	}
	return min(n, MaxWords)
}

// QueryWords returns the words of a search query: those of Words without parts and duplicates.
func QueryWords(text string) (words []string) {
	seen := map[string]bool{}
	for word := range fields(text) {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// fields yields the words between white space, without the punctuation around them.
func fields(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsSeq(Name(Truncate(text, maxSearched))) {
			if word = strings.TrimFunc(word, punctuation); word != "" && !yield(word) {
				return
			}
		}
	}
}

// punctuation reports whether c is not a letter, number or mark of any script.
func punctuation(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsNumber(c) && !unicode.IsMark(c)
}

// Truncate returns the longest prefix of a text that has at most most bytes and splits no
// character.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// ToUnicode returns a canonical domain with its Punycode labels decoded to Unicode. It returns
// any other text unchanged.
func ToUnicode(domain string) string {
	if len(domain) > maxHost || !strings.Contains(domain, "xn--") {
		return domain
	}
	text, err := idna.Lookup.ToUnicode(domain)
	if err != nil {
		return domain
	}
	return text
}
