package expression

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestNumbersKeepTheirValue(t *testing.T) {
	for text, want := range map[string]any{
		"0": int64(0), "-0": int64(0), "9223372036854775807": int64(9223372036854775807), "-9223372036854775808": int64(-9223372036854775808),
		"9223372036854775808": "9223372036854775808", "18446744073709552000": 18446744073709552000.0, "0.1": 0.1, "1.0": 1.0, "1e3": 1000.0, "-2.50E-3": -0.0025, "1e400": "1e400", "1e-400": "1e-400",
		"18446744073709551617": "18446744073709551617", "0.12345678901234567890": "0.12345678901234567890", "0.0": 0.0, "0e5": 0.0,
	} {
		if got := number(text); got != want {
			t.Errorf("%s is %v (%T), want %v (%T)", text, got, got, want, want)
		}
	}
}

// slowNumbers are those that package strconv converts in 10 to 70 µs, not in 0.1.
var slowNumbers = map[string]string{
	"subnormal":       "1e-320",
	"long subnormal":  "-1.2345678901234e-310",
	"below normal":    "2.2250738585072011e-308",
	"smallest":        "5e-324",
	"below smallest":  "1e-330",
	"too large":       "2e308",
	"far too large":   "1e309",
	"digits of zeros": "0." + strings.Repeat("0", 319) + "1",
	"25 digits":       slowDigits(25),
	"800 digits":      slowDigits(800),
}

// slowDigits returns digits of a number that is between two doubles, so that it takes more than 19 of them to tell which one is nearer.
func slowDigits(n int) string {
	one := 1.2345678901234567e-300
	middle := new(big.Float).SetPrec(3000).SetFloat64(one)
	middle.Add(middle, new(big.Float).SetFloat64(math.Nextafter(one, 1)))
	return middle.Quo(middle, big.NewFloat(2)).Text('e', n-1)
}

func TestNumbersThatTakeLongToConvertAreTexts(t *testing.T) {
	for name, text := range slowNumbers {
		if got := number(text); got != text {
			t.Errorf("%s: %s is %v (%T)", name, text, got, got)
		}
	}
	for text, want := range map[string]float64{
		"2.2250738585072014e-308": 0x1p-1022, "-22.250738585072014e-309": -0x1p-1022, "1e-307": 1e-307, "1.7976931348623157e308": math.MaxFloat64,
		"17976931348623157" + strings.Repeat("0", 292): math.MaxFloat64, "1e308": 1e308, "0e-320": 0, "1." + strings.Repeat("0", 800): 1,
	} {
		if got := number(text); got != want {
			t.Errorf("%s is %v (%T)", text, got, got)
		}
	}
}

func TestNumbersAreDoublesIfTheyPrintTheSame(t *testing.T) {
	for range 100_000 {
		text := fmt.Sprintf("%d.%de%d", rand.N(10), rand.N(int64(math.Pow10(rand.N(19)))), rand.N(660)-340)
		f, err := strconv.ParseFloat(text, 64)
		digits, exponent := decimal(text)
		same, sameExponent := decimal(strconv.FormatFloat(f, 'e', -1, 64))
		want := any(f)
		if err != nil || digits != same || exponent != sameExponent || math.Abs(f) < 0x1p-1022 && f != 0 {
			want = text
		}
		if got := number(text); got != want {
			t.Errorf("%s is %v (%T), want %v (%T)", text, got, got, want, want)
		}
	}
}

// evaluate compiles and evaluates an expression with the variable body.
func evaluate(t *testing.T, source, body string, results ...Type) (any, error) {
	t.Helper()
	language, err := New(map[string]Type{"body": Any, "strings": StringMap})
	if err != nil {
		t.Fatal(err)
	}
	program, err := language.Compile(source, results...)
	if err != nil {
		return nil, err
	}
	value, err := Decode(jsontext.NewDecoder(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	result, cost, err := program.Eval(map[string]any{"body": value, "strings": map[string]string{"a": "b"}})
	if err == nil && (cost < 0 || cost > MaxCost) {
		t.Errorf("%s cost %d", source, cost)
	}
	return result, err
}

func TestResultsHaveTheTypesThatAreAllowed(t *testing.T) {
	for source, want := range map[string]any{
		`body.text`: "t", `body.int`: int64(7), `body.double`: 1.5, `body.none`: nil, `body.?none`: nil, `body.?missing`: nil, `body.?none.?deeper`: nil,
		`body.?text`: "t", `strings["a"]`: "b", `strings[?"b"]`: nil, `null`: nil, `optional.none()`: nil, `1 + 1`: int64(2), `body.?text.?deeper`: nil,
	} {
		got, err := evaluate(t, source, `{"text":"t","int":7,"double":1.5,"none":null}`, String, Int, Double, Null)
		if err != nil || got != want {
			t.Errorf("%s: %v (%T), %v", source, got, got, err)
		}
	}
	for source, message := range map[string]string{
		`true`: "line 1, column 1: the result must be a string or null, not bool", `[1]`: "not list(int)", `body.int`: "not int", `body.list`: "not list",
		`body.?int`: "not int", `body.map`: "not map", `1.5`: "not double", `strings`: "not map(string, string)", `body`: "not map", `optional.of(1)`: "not int",
		`b"x"`: "not bytes", `1u`: "not uint",
	} {
		if got, err := evaluate(t, source, `{"int":7,"list":[],"map":{}}`, String, Null); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v, %v, want %q", source, got, err, message)
		}
	}
	if got, err := evaluate(t, `body.?text`, `{}`, String); err == nil {
		t.Errorf("no value is %v", got)
	}
}

func TestAStringWithoutQuotesIsExplained(t *testing.T) {
	const hint = `: write string literals in quotes, such as "text"`
	for source, explained := range map[string]bool{`acme.example`: true, `webhook`: true, `my-shop.example`: true, `bdy.a + "x"`: false, `now()`: false} {
		_, err := evaluate(t, source, `{}`, String)
		if err == nil || strings.Contains(err.Error(), hint) != explained {
			t.Errorf("%s: %v, explained: %t", source, err, explained)
		}
	}
}

func TestFailuresPointIntoTheExpression(t *testing.T) {
	for source, want := range map[string]Fault{
		`body.a`:                         {1, 5, "no such key: a"},
		"1 == 1 &&\n  body.b.c == \"x\"": {2, 9, "no such key: b"},
		`body.list[7] == ""`:             {1, 10, "index out of bounds: 7"},
		`body.n / 0 == 1`:                {1, 8, "division by zero"},
	} {
		_, err := evaluate(t, source, `{"list":[],"n":1}`, Bool, Any)
		e, ok := errors.AsType[*Error](err)
		if !ok || len(e.Faults) != 1 || e.Faults[0].Line != want.Line || e.Faults[0].Column != want.Column || !strings.Contains(e.Faults[0].Message, want.Message) {
			t.Errorf("%s: %v, want %v", source, err, want)
		}
	}
}
