package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// maxTypos is the maximum edit distance of a suggestion.
const maxTypos = 2

// settingNames returns the names of all settings.
func settingNames() (names []string) {
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		names = append(names, Name(fields.Field(i).Name))
	}
	return names
}

// A Misspelling is a variable of the environment that has no effect but resembles one that does.
type Misspelling struct {
	Name  string // as it is set
	Known string // the variable that it resembles
}

func (m Misspelling) String() string {
	return fmt.Sprintf("%s is not a setting: did you mean %s?", m.Name, m.Known)
}

// Misspellings returns the misspelled variables of an environment, which has the form of os.Environ.
// others are the known variables that are not settings. Empty variables count as unset.
func Misspellings(environ []string, others ...string) (all []Misspelling) {
	prefix := Variable("")
	var known []string
	for _, name := range append(settingNames(), "config") {
		known = append(known, strings.TrimPrefix(Variable(name), prefix))
	}
	for _, name := range others {
		known = append(known, strings.TrimPrefix(name, prefix))
	}
	for _, name := range slices.Clone(known) {
		known = append(known, name+fileSuffix)
	}
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || text == "" || slices.Contains(known, rest) {
			continue
		}
		if similar := nearest(rest, known); similar != "" {
			all = append(all, Misspelling{name, prefix + similar})
		}
	}
	return all
}

// suggestion returns the end of an error about an unknown name: the most similar known one, or "".
func suggestion(unknown string, known []string) string {
	if similar := nearest(unknown, known); similar != "" {
		return fmt.Sprintf(": did you mean %s?", similar)
	}
	return ""
}

// nearest returns the known name that resembles an unknown one most, or "". Of a short name, only
// one letter in three may differ.
func nearest(unknown string, known []string) (similar string) {
	least := maxTypos + 1
	for _, name := range known {
		if d := editDistance(unknown, name); d < least && d <= max(1, len(name)/3) {
			similar, least = name, d
		}
	}
	return similar
}

// editDistance returns the Levenshtein distance of two texts in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the part of a before i to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
