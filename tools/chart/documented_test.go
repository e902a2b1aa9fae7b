package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/strvals"
)

var (
	command  = regexp.MustCompile(`(?m)^(?:\$ )?(helm (?:install|upgrade|template) .*(?:\\\n.*)*)`)
	flagOnly = regexp.MustCompile("`(--set(?:-string)? [^`]*)`")
)

// documented returns the commands of a page that render the chart, and the flags in its text as commands.
func documented(page string) (all []string) {
	for _, m := range command.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(m[1], "\\\n", " "))
	}
	for _, m := range flagOnly.FindAllStringSubmatch(page, -1) {
		all = append(all, "helm install atrium deploy/helm/atrium "+m[1])
	}
	return all
}

// apply returns the values that Helm has after a command, which may keep those of the command before.
func apply(command string, before map[string]any) (map[string]any, error) {
	words := strings.Fields(command) // no value has a space
	values := map[string]any{}
	if slices.Contains(words, "--reuse-values") || slices.Contains(words, "--reset-then-reuse-values") {
		values = util.MergeTables(values, before)
	}
	for i := 1; i < len(words); i++ {
		parse := map[string]func(string, map[string]any) error{"--set": strvals.ParseInto, "--set-string": strvals.ParseIntoString}[words[i]]
		if parse == nil {
			continue
		}
		i++
		if i == len(words) {
			return nil, fmt.Errorf("%s has no value", words[i-1])
		}
		if err := parse(words[i], values); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func TestDocumentedCommandsRender(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var values map[string]any
		for _, command := range documented(string(page)) {
			commands++
			if values, err = apply(command, values); err != nil {
				t.Errorf("%s: %v", command, err)
				continue
			}
			if _, err := renderValues(values); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
	if commands < 4 {
		t.Errorf("found only %d commands", commands)
	}
}
