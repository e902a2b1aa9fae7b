package expression

import (
	"runtime"
	"strings"
	"testing"
)

// fill repeats a unit with separators, in at most size bytes.
func fill(unit, separator string, size int) string {
	return unit + strings.Repeat(separator+unit, (size-len(unit))/(len(unit)+len(separator)))
}

// heap returns the bytes that n values occupy.
func heap[T any](n int, produce func() T) int {
	all := []T{produce()} // what is made once
	measure := func() uint64 {
		runtime.GC()
		runtime.GC() // what finalizers and pools have kept
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	for range n {
		all = append(all, produce())
	}
	after := measure()
	runtime.KeepAlive(all)
	return int(after) - int(before)
}

// hostile returns expressions that occupy much memory.
func hostile() map[string]string {
	const size = 3900
	all := map[string]string{
		"a string literal": `"` + strings.Repeat("ä", size/2) + `"==""`,
		"long class":       `''.matches('^[` + strings.Repeat("0-1a-b", size/6-5) + `]{190}$')`,
		"tables":           `''.matches(r'[` + strings.Repeat(`\pL\pN`, 10) + `]')`,
		"row of tables":    `''.matches(r'^` + strings.Repeat(`\p{Lu}\p{Ll}`, 10) + `$')`,
		"folded tables":    `''.matches(r'(?i)` + strings.Repeat(`\p{Lu}\p{Ll}`, 10) + `')`,
	}
	for _, pattern := range []string{
		`^\pL{0,60}$`, `^[^\pL]{0,60}$`, `(?i)^\pL{0,60}$`, `^([024]?[135]?[678]?a){15}$`, `(?i)^[ak-é]{100}$`, `(?i)^[B-\x{1e942}]{0,60}$`, "^" + strings.Repeat("()", 47),
		"^" + strings.Repeat("a", 190) + "$", "(?P<" + strings.Repeat("a", 300) + ">a)",
	} {
		call := "''.matches(r'" + pattern + "')"
		all[pattern] = fill(call, "||", min(size, maxMatchesCalls*(len(call)+2)))
	}
	for _, unit := range []string{
		"true", "!true", "body", "body.a", "body.a==1", "body.a.b.c.d.e.f.g.h", "body.?a.b.c.d.e.f.g.h.hasValue()", "body[0][body]", "body['a']['b']", "(body?body:body).a",
		"''.substring(0,1)==''", "has(body.a)",
	} {
		all[unit] = fill(unit, "||", size)
	}
	for _, unit := range []string{"[1].all(a,a>0)", "[].filter(a,a)==[]", "[].map(a,a,a)==[]", "body.?a.optFlatMap(v,body.?b).hasValue()"} {
		all[unit] = fill(unit, "||", size/2)
	}
	for _, unit := range []string{"1", "body", "?body.?a"} {
		all["in a list: "+unit] = "body in [" + fill(unit, ",", size-10) + "]"
	}
	return all
}

func TestMemoryOfAProgramIsNotUnderestimated(t *testing.T) {
	l, err := New(map[string]Type{"body": Any})
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range hostile() {
		compile := func() *Program {
			p, err := l.Compile(source, Bool)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return p
		}
		estimate := compile().Memory()
		n, limit := 5+1<<18/estimate, estimate*10/11
		used := heap(n, compile) / n
		for range 3 {
			if used > limit { // the runtime may have allocated
				used = min(used, heap(n, compile)/n)
			}
		}
		t.Logf("%-45.45s %7d bytes, estimate %d", name, used, estimate)
		if used > limit {
			t.Errorf("%s: %d bytes, the estimate of %d has a margin of less than a tenth", name, used, estimate)
		}
		if estimate > 1<<20 { // as docs/security.md says of filters
			t.Errorf("%s: the estimate is %d, want 1 MiB at most", name, estimate)
		}
	}
}

func TestRegularExpressionsMatchWithTheGroupBeforeThem(t *testing.T) {
	for source, want := range map[string]bool{
		`"ab".matches("^b|^ab$")`: true, `"ab".matches("^a$|^b$")`: false, `"aB".matches("(?i)^AB$")`: true, `"a)b".matches(r"^\Qa)b")`: true, `"é".matches(r"^\pL{1,60}$")`: true,
		`"é1".matches(r"^\pL{1,60}$")`: false, `"".matches("")`: true, `"a".matches("^")`: true, `"x\na".matches("(?m)^a")`: true, `"x\na".matches("^a")`: false,
	} {
		if got, err := evaluate(t, source, `{}`, Bool); err != nil || got != want {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
	for pattern, want := range map[string]uint64{"a": 3, "^a|b$": 7} { // as without the group
		if got, _ := regexpSize(pattern); got != want {
			t.Errorf("%s has %d instructions, want %d", pattern, got, want)
		}
	}
	for _, pattern := range []string{"*", "+a", "a)(b", "{1}a)", "("} {
		if err := compiles(t, `"x".matches("`+pattern+`")`); err == nil {
			t.Errorf("%s compiles", pattern)
		}
	}
}
