package console

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// shown returns the text of all nodes of a tree.
func shown(n node) string {
	parts := []string{n.Key, n.Text}
	for _, child := range n.Children {
		parts = append(parts, shown(child))
	}
	return strings.Join(parts, " ")
}

func size(n node) (nodes, depth int) {
	nodes = 1
	for _, child := range n.Children {
		below, deep := size(child)
		nodes, depth = nodes+below, max(depth, deep)
	}
	return nodes, depth + 1
}

func TestTreesAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"many elements": "[" + strings.Repeat("1,", 50_000) + "1]",
		"many members":  "{" + strings.Repeat(`"a":1,`, 50_000) + `"b":2}`,
		"nesting":       strings.Repeat("[", 64) + strings.Repeat("]", 64),
		"a long text":   `{"a":"` + strings.Repeat("é", 100_000) + `"}`,
		"a long name":   `{"` + strings.Repeat("é", 100_000) + `":1}`,
		"wide and deep": strings.Repeat(`{"a":[1,2,3],"b":`, 60) + "1" + strings.Repeat("}", 60),
	} {
		tree, err := parseNode(jsontext.Value(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		nodes, depth := size(tree)
		if nodes > maxNodes+1 || depth > maxDepth+1 || len(shown(tree)) > 4*maxText+16*nodes {
			t.Errorf("%s: %d nodes, %d deep, %d bytes", name, nodes, depth, len(shown(tree)))
		}
	}
}

func TestTreesShowEveryValueAsItIsWritten(t *testing.T) {
	tree, err := parseNode(jsontext.Value(`{"a":1.50,"b":[true,null,"x\n"],"a":{"c":1e400}}`))
	if got := strings.Fields(shown(tree)); err != nil || !slices.Equal(got, []string{"a", "1.50", "b", "true", "null", "x", "a", "c", "1e400"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "{", "[1,]", `{"a"}`, "tru", "\x00"} {
		if _, err := parseNode(jsontext.Value(text)); err == nil {
			t.Errorf("%q has a tree", text)
		}
	}
}

// A comparison has all lines of both texts in order, marks those that differ, and has the same number of
// rows as differences as the shortest script of changes needs.
func TestComparisonsAreCompleteAndShort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lines := func(n int) (all []string) {
		for range n {
			all = append(all, strconv.Itoa(random.IntN(4)))
		}
		return all
	}
	for range 2000 {
		left, right := lines(random.IntN(12)), lines(random.IntN(12))
		var gotLeft, gotRight []string
		equal := 0
		for _, row := range sideBySide(left, right) {
			if row.Left != "" {
				gotLeft = append(gotLeft, row.Left)
			}
			if row.Right != "" {
				gotRight = append(gotRight, row.Right)
			}
			if !row.Changed {
				equal++
				if row.Left != row.Right {
					t.Fatalf("%q and %q are not marked", row.Left, row.Right)
				}
			}
		}
		if !slices.Equal(gotLeft, left) || !slices.Equal(gotRight, right) || equal != common(left, right) {
			t.Fatalf("%q and %q: %q and %q, %d equal lines, want %d", left, right, gotLeft, gotRight, equal, common(left, right))
		}
	}
	if rows := sideBySide(lines(5000), lines(5000)); len(rows) != 5000 {
		t.Errorf("%d rows for 5,000 lines", len(rows))
	}
}

// common returns the length of a longest common subsequence, slowly.
func common(left, right []string) int {
	if len(left) == 0 || len(right) == 0 {
		return 0
	}
	if left[0] == right[0] {
		return 1 + common(left[1:], right[1:])
	}
	return max(common(left[1:], right), common(left, right[1:]))
}

func FuzzTree(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"\ud83d\ude00"}`))
	f.Add([]byte("[[[["))
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := parseNode(text)
		if nodes, depth := size(tree); err == nil && (nodes > maxNodes+1 || depth > maxDepth+1) {
			t.Errorf("%d nodes, %d deep", nodes, depth)
		}
	})
}

func TestEveryScopeOfNewKeysIsExplained(t *testing.T) {
	for _, s := range atrium.AllScopes() {
		if s != atrium.ScopeContentRead && allowed[s] == "" {
			t.Errorf("nothing says what the scope %s allows", s)
		}
	}
}
