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

// Lists side by side have all elements in order, and as many equal ones as both have in the same order.
func TestListsSideBySideAreComplete(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := func(n int) (all []string) {
		for range n {
			all = append(all, strconv.Itoa(random.IntN(4)))
		}
		return all
	}
	for range 2000 {
		left, right := list(random.IntN(12)), list(random.IntN(12))
		nextLeft, nextRight, equal := 0, 0, 0
		for _, p := range (&difference{cells: maxCells}).sideBySide(left, right, 12) {
			if p.left >= 0 && p.left != nextLeft || p.right >= 0 && p.right != nextRight {
				t.Fatalf("%q and %q: the pair %+v comes too early or late", left, right, p)
			}
			if p.left >= 0 {
				nextLeft++
			}
			if p.right >= 0 {
				nextRight++
			}
			if p.same {
				if equal++; left[p.left] != right[p.right] {
					t.Fatalf("%q and %q: the pair %+v is not the same", left, right, p)
				}
			}
		}
		if nextLeft != len(left) || nextRight != len(right) || equal != common(left, right) {
			t.Fatalf("%q and %q: %d equal elements, want %d", left, right, equal, common(left, right))
		}
	}
	if pairs := (&difference{cells: maxCells}).sideBySide(list(5000), list(5000), 1000); len(pairs) != 5000 {
		t.Errorf("%d pairs for 5,000 elements", len(pairs))
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
