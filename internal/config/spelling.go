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

// CheckNames warns of each variable of an environment, in the form of os.Environ, that has no effect but
// whose name is similar to that of a setting.
func (l *Loader) CheckNames(environ []string) {
	var known []string
	for _, name := range append(settingNames(), "config") {
		known = append(known, Variable(name), Variable(name)+fileSuffix)
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, Variable("")) || slices.Contains(known, name) {
			continue
		}
		if similar := suggestion(name, known); similar != "" {
			l.warn(name + " is not a setting" + similar)
		}
	}
}

// suggestion returns the end of an error about an unknown name: the most similar known one, or "".
func suggestion(unknown string, known []string) string {
	nearest, least := "", maxTypos+1
	for _, name := range known {
		if d := editDistance(unknown, name); d < least {
			nearest, least = name, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s?", nearest)
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
