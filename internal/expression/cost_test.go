package expression

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// within ends the tests if f takes longer than an expression of any kind may, on a busy machine.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	timer := time.AfterFunc(limit, func() { panic(what + " takes longer than " + limit.String()) })
	defer timer.Stop()
	f()
	t.Logf("%s took %s", what, time.Since(began))
}

// compiles returns the error of an expression.
func compiles(t *testing.T, source string) error {
	t.Helper()
	language, err := New(map[string]Type{"body": Any})
	if err != nil {
		t.Fatal(err)
	}
	_, err = language.Compile(source, Bool, Int, String, Null)
	return err
}

func TestTypesDoNotGrowExponentially(t *testing.T) {
	for name, source := range map[string]string{
		"maps":           "size([1]" + strings.Repeat(".map(a, {a: a})", 24) + ")",
		"maps in lists":  "size([1]" + strings.Repeat(".map(a, [{a: a}])", 24) + ")",
		"optional keys":  "size([1]" + strings.Repeat(".map(a, {?a: optional.of(a)})", 20) + ")",
		"nested":         strings.Repeat("[{1: 1}].all(a, [{a: a}].all(b, ", 12) + "true" + strings.Repeat("))", 12),
		"keys of lists":  "size([1]" + strings.Repeat(".map(a, {[a]: [a]})", 24) + ")",
		"later entries":  "size([1]" + strings.Repeat(".map(a, {dyn(1): dyn(1), a: a})", 24) + ")",
		"nested in keys": "size([1]" + strings.Repeat(".map(a, {{a: a}: a})", 20) + ")",
	} {
		within(t, 10*time.Second, name, func() {
			if err := compiles(t, source); err == nil || !strings.Contains(err.Error(), "at most 4 maps can have keys that are not literals") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for _, source := range []string{
		"size([1].map(a, {a: a}).map(a, {a: a}).map(a, {a: a}).map(a, {a: a})) == 1",
		"size([" + strings.Repeat("{'a': 1}, ", 100) + "{'a': 1}])",
		"size([1]" + strings.Repeat(".map(a, [a])", 25) + strings.Repeat(".map(a, {a: a})", 4) + ")",
	} {
		within(t, 10*time.Second, source, func() {
			if err := compiles(t, source); err != nil {
				t.Errorf("%s: %v", source, err)
			}
		})
	}
}

func TestRegularExpressionsAreCompiledOnce(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat(`"1",`, 3000), ",")
	within(t, 10*time.Second, "3000 calls", func() {
		got, err := evaluate(t, `body.list.exists(x, x.matches("(?i)[B-\\x{1e942}]"))`, `{"list":[`+list+`]}`, Bool)
		if err != nil || got != false {
			t.Errorf("%v, %v", got, err)
		}
	})
	for source, want := range map[string]bool{
		`"ABC".matches("(?i)^[a-c]+$")`: true, `"ABC".matches("^[a-c]+$")`: false, `matches("abc", "b")`: true, `body.text.matches("É") || body.text.matches("(?i)É")`: true,
	} {
		if got, err := evaluate(t, source, `{"text":"é"}`, Bool); err != nil || got != want {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
	if _, err := evaluate(t, `body.text.matches("(a|b|cd|ef|gh)*ij")`, `{"text":"`+strings.Repeat("a", 90_000)+`"}`, Bool); err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Errorf("a call with a regular expression costs too little: %v", err)
	}
}

func TestRegularExpressionsCompileFast(t *testing.T) {
	wide := `B-\\x{1e942}`
	for name, source := range map[string]string{
		"classes":        `"x".matches("(?i)` + strings.Repeat("["+wide+"]", 190) + `")`,
		"one class":      `"x".matches("(?i)[` + strings.Repeat(wide, 300) + `]")`,
		"several flags":  `"x".matches("(?s-U)a(?sim:[` + strings.Repeat(wide, 300) + `])")`,
		"code points":    `"x".matches("(?i)[` + strings.Repeat("B-𞥂", 300) + `]")`,
		"several calls":  strings.Repeat(`"x".matches("(?i)`+strings.Repeat("["+wide+"]", 4)+`") || `, 9) + "true",
		"tables":         `"x".matches(r"[` + strings.Repeat(`\pL`, 1300) + `]")`,
		"other tables":   strings.Repeat(`"x".matches(r"(?i)[^`+strings.Repeat(`\P{Lu}\pN`, 30)+`]") || `, 9) + "true",
		"a literal name": `"x".matches("(?P<i>a)(?i)[` + strings.Repeat(wide, 300) + `]")`,
	} {
		within(t, 10*time.Second, name, func() {
			if err := compiles(t, source); err == nil || !strings.Contains(err.Error(), "at most") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for _, source := range []string{
		`"x".matches("(?i)^[a-z0-9_.+-]+@[a-z0-9-]+\\.[a-z]{2,}$")`, `"x".matches("(?i)[à-ÿ][À-Ý]")`, `"x".matches(r"(?i)^[\pL\pN]+( [\p{Lu}\PM]+)*$")`, `"x".matches("(?P<i>a)[` + strings.Repeat("à-ÿ", 20) + `]")`,
	} {
		if err := compiles(t, source); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestLargeRangesAreEnteredFast(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat("1,", 7000), ",")
	var members strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&members, `,"k%d":1`, i)
	}
	body := `{"list":[` + list + `],"map":{` + members.String()[1:] + `}}`
	within(t, time.Minute, "40 evaluations", func() {
		for range 40 {
			if got, err := evaluate(t, `body.list.all(a, body.map.exists(b, true))`, body, Bool); err != nil || got != true {
				t.Errorf("%v, %v", got, err)
			}
		}
	})
}

// doubled returns an expression that, in the second iteration of a macro, makes a list of 40 lists, each of which is the
// same list of 40 lists, and so on, and compares it with itself.
func doubled(levels int) string {
	forty := func(element string) string { return "[" + strings.Repeat(element+",", 39) + element + "]" }
	source := "a == a"
	for range levels {
		source = "[" + forty("a") + "].all(p, [i == 0 ? [] : p].all(a, " + source + "))"
	}
	return "[0, 1].all(i, [i == 0 ? [] : " + forty("0") + "].all(a, " + source + "))"
}

// large returns a body with a list of 9000 elements, a map of 4000 and a string of 90 KB.
func large() string {
	var members strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&members, `,"k%d":1`, i)
	}
	return `{"list":[` + strings.Repeat("1,", 8999) + `1],"map":{` + members.String()[1:] + `},"text":"` + strings.Repeat("a", 90_000) + `"}`
}

func TestValuesThatMacrosMakeAreBounded(t *testing.T) {
	for name, source := range map[string]string{
		"lists": doubled(7),
		"maps":  strings.NewReplacer("[a,", "[{1: a, 2: a},", ",a]", ",{'a': a}]").Replace(doubled(7)),
		"texts": `[0, 1].all(i, [i == 0 ? "" : body.text].all(a, [` + strings.Repeat("a,", 900) + `a].join("").size() >= 0))`,
	} {
		within(t, 10*time.Second, name, func() {
			if got, err := evaluate(t, source, large(), Bool); err == nil || !strings.Contains(err.Error(), "limit exceeded") {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		})
	}
}

func TestWhatTakesTimeHasACost(t *testing.T) {
	for _, source := range []string{
		`[optional.of(body.list)].all(o, body.list.all(x, o == o))`,
		`body.list.all(x, body.?list == body.?list)`,
		`body.list.all(x, body.?list != optional.none() && body.?list in [body.?list])`,
		`body.list.exists(x, body.map.exists_one(k, false))`,
		`body.list.exists(x, body.list.filter(k, false).size() == 1)`,
		`body.list.exists(x, body.list.map(k, false, 1).size() == 1)`,
		`body.list.exists(x, [body.map].size() == 0)`,
	} {
		within(t, 10*time.Second, source, func() {
			if got, err := evaluate(t, source, large(), Bool); err == nil || !strings.Contains(err.Error(), "limit exceeded") {
				t.Errorf("%s: %v, %v", source, got, err)
			}
		})
	}
	for source, fault := range map[string]string{
		`body.list.exists(x, [?body.list] == [])`:                                "column 27: an optional element must be an optional value",
		`body.list.exists(x, {?"a": body.list} == {})`:                           "column 32: an optional element must be an optional value",
		`has(google.protobuf.Struct{fields: body.map}.k1)`:                       "messages such as google.protobuf.Struct are not available",
		`body.list.exists(x, google.protobuf.ListValue{values: body.list} == x)`: "messages such as google.protobuf.ListValue are not available",
	} {
		if err := compiles(t, source); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %v", source, err)
		}
	}
	for _, source := range []string{
		`[?body.?list, ?optional.none()].size() == 1`, `{?"a": body.?list, ?"b": body.?none}.size() == 1`, `[body.map].size() == 1`,
		`body.list.filter(x, x == 2).size() == 0`, `body.list.exists_one(x, x == 2) == false`, `body.?list == body.?list`, `body.list.all(x, body.?map.hasValue())`,
	} {
		if got, err := evaluate(t, source, large(), Bool); err != nil || got != true {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
}

func TestConversionThatTakesLongHasACost(t *testing.T) {
	converted := func(text string) error {
		list := strings.TrimSuffix(strings.Repeat(`"`+text+`",`, 2000), ",")
		_, err := evaluate(t, `body.list.exists(x, double(x) == 3.0)`, `{"list":[`+list+`]}`, Bool)
		return err
	}
	for name, text := range slowNumbers {
		if len(text) > 100 { // so that their lengths do not reach the limits
			continue
		}
		if err := converted(text); err == nil || !strings.Contains(err.Error(), "cost limit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"1.5", "-1e300", "+12345678901234567", "1.7976931348623157e308", "0e-320", "Infinity", "0x1p-1074"} {
		if err := converted(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A key is hashed in each lookup in a map with several members.
func TestKeyOfALookupHasACost(t *testing.T) {
	text := strings.Repeat("a", 1000)
	list := strings.TrimSuffix(strings.Repeat("1,", 2000), ",")
	body := `{"m":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9},"long":"` + text + `","short":"a","list":[` + list + `]}`
	for _, source := range []string{
		`body.list.all(x, body.m[body.%s] == 0 || true)`,
		`body.list.all(x, body.?m[?body.%s].orValue(0) == 0 || true)`,
		`body.list.all(x, body.m[x == 1 ? body.%s : "b"] == 0 || true)`,
		`[body.%s].all(k, body.list.all(x, body.m[k] == 0 || true))`,
	} {
		long, short := fmt.Sprintf(source, "long"), fmt.Sprintf(source, "short")
		if _, err := evaluate(t, long, body, Bool); err == nil || !strings.Contains(err.Error(), "cost limit") {
			t.Errorf("%s: %v", long, err)
		}
		if got, err := evaluate(t, short, body, Bool); err != nil || got != true {
			t.Errorf("%s: %v, %v", short, got, err)
		}
	}
	if got, err := evaluate(t, `[0, 1].all(i, ["a", "b"][i] == ["a", "b"][i]) && body.m[body.short] == 1 && body.?m[?body.short].orValue(0) == 1`, body, Bool); err != nil || got != true {
		t.Errorf("lookups: %v, %v", got, err)
	}
}

func TestSearchesTakeLinearTime(t *testing.T) {
	text, part := strings.Repeat("a", 95_000), strings.Repeat("a", 47_000)
	for _, search := range []func(text, part string){
		func(text, part string) { indexOf(text, part+"b", nil) },
		func(text, part string) { lastIndexOf(text, "b"+part, nil) },
	} {
		within(t, 10*time.Second, "20 searches", func() {
			for range 20 {
				search(text, part)
			}
		})
	}
}

func TestSearchesAreThoseOfTheLibrary(t *testing.T) {
	library, err := cel.NewEnv(ext.Strings())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	random := func(most int) string {
		var b strings.Builder
		for range rand.N(most) {
			b.WriteString([]string{"a", "b", "é", "😀"}[rand.N(4)])
		}
		return b.String()
	}
	for range 3000 {
		source := fmt.Sprintf("%q.%s(%q", random(8), []string{"indexOf", "lastIndexOf"}[rand.N(2)], random(4))
		if rand.N(2) == 0 {
			source += fmt.Sprintf(", %d", rand.N(12)-2)
		}
		source += ")"
		tree, issues := library.Compile(source)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := library.Program(tree)
		if err != nil {
			t.Fatal(err)
		}
		want, _, wantErr := program.Eval(map[string]any{})
		compiled, err := ours.Compile(source, Int)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := compiled.Eval(map[string]any{})
		if (err != nil) != (wantErr != nil) || err == nil && types.Int(got.(int64)) != want {
			t.Errorf("%s is %v, %v, want %v, %v", source, got, err, want, wantErr)
		}
	}
}
