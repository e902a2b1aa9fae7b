package strictjson

import (
	"strings"
	"testing"
)

func parse(t *testing.T, body string) *Object {
	t.Helper()
	o, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// In JSON Schema, every number with a zero fraction is an integer, in any notation.
func TestIntegerAcceptsEveryNotation(t *testing.T) {
	const least, most = -100, 9007199254740991
	for number, want := range map[string]int64{
		"0": 0, "-0": 0, "0.0": 0, "-0.00e5": 0, "0e999999999": 0, "0e-999999999": 0,
		"7": 7, "7.0": 7, "7.000": 7, "25920.0": 25920, "70e-1": 7, "0.7e1": 7, "0.07E+2": 7,
		"1e2": 100, "1E2": 100, "1e+2": 100, "1e0000000000000000000000002": 100, "100e-2": 1, "100.0e-2": 1,
		"1" + strings.Repeat("0", 1000) + "e-1000":  1,
		"0." + strings.Repeat("0", 1000) + "1e1001": 1,
		"1." + strings.Repeat("0", 1000):            1,
		"-1e2":                                      -100, "-100": -100, "-99.0": -99,
		"9007199254740991": most, "9007199254740991.0": most, "0.9007199254740991e16": most, "90071992547409910e-1": most,
	} {
		o := parse(t, `{"n":`+number+`}`)
		if n := o.Integer("n", least, most); n != want || len(o.Faults()) > 0 {
			t.Errorf("%.60s: %d, %v, want %d", number, n, o.Faults(), want)
		}
	}
	for _, number := range []string{
		"0.5", "-0.1", "1.01", "1e-1", "15e-1", "1e-999999999", "1e-99999999999999999999999999999999",
		"9007199254740992", "9007199254740991.5", "9007199254740992.0", "1e16", "1e999999999", "1e99999999999999999999999999999999",
		"1e17", "1e18", "1e19", "9223372036854775808", "18446744073709551617", "-101", "-1e3", "-1e999999999",
		"1" + strings.Repeat("0", 1000), "9" + strings.Repeat("9", 1000) + "e-1000",
		"true", `"1"`, "[1]", "null",
	} {
		o := parse(t, `{"n":`+number+`}`)
		if n := o.Integer("n", least, most); n != 0 || len(o.Faults()) != 1 {
			t.Errorf("%.60s: %d, %v", number, n, o.Faults())
		}
	}
}

// A short number can have a value with a billion digits.
func TestExponentsAllocateNothing(t *testing.T) {
	for _, number := range []string{"1e2", "1e999999999", "1e-999999999", "1e99999999999999999999", "12.50e1"} {
		o := parse(t, `{"n":`+number+`}`)
		if n := testing.AllocsPerRun(100, func() { wholeNumber(o.Value("n")) }); n > 0 {
			t.Errorf("%s: %v allocations, want none", number, n)
		}
	}
}
