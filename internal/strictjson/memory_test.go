package strictjson_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/jsonshape"
	"atrium/internal/strictjson"
)

// allocated returns the number of bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestParsingAllocatesInProportionToSize(t *testing.T) {
	const times = 12 // total allocations per byte, including slices that were outgrown
	known := []byte(`{"source":"crm","payload":{}}`)
	for _, size := range []int{64 << 10, 1 << 20} {
		for _, shape := range jsonshape.All {
			inner := shape.Make(size)
			for place, body := range map[string][]byte{
				"as a member":   fmt.Appendf(nil, `{"payload":%s,"source":"crm"}`, inner),
				"as the object": jsonshape.Extend(known, inner),
			} {
				got := allocated(func() {
					o, err := strictjson.Parse(body)
					if err != nil {
						t.Fatalf("%s: %v", shape.Name, err)
					}
					if source, _ := o.Text("source", strictjson.Required, nil); source != "crm" || o.Object("payload", strictjson.Required) == nil {
						t.Fatalf("%s: its members are missing", shape.Name)
					}
					o.RejectUnknown()
					o.Faults()
				})
				if most := times*len(body) + 64<<10; got > most {
					t.Errorf("%s of %d bytes %s: allocated %d bytes, want at most %d", shape.Name, size, place, got, most)
				}
			}
		}
	}
}

func TestFaultsAreLimited(t *testing.T) {
	body := jsonshape.Wide(1 << 20)
	o, err := strictjson.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	o.Text("missing", strictjson.Required, nil)
	got := allocated(o.RejectUnknown)
	faults := o.Faults()
	if len(faults) != atrium.MaxFaults || faults[0].Where != "/missing" || faults[1].Where != "/"+o.Names()[0] || faults[49].Where != "/"+o.Names()[48] {
		t.Errorf("got %d faults, the first of which are %v", len(faults), faults[:2])
	}
	if got > 32<<10 {
		t.Errorf("the faults took %d bytes", got)
	}
	inner, _ := strictjson.Parse([]byte(`{"a":` + string(body) + `,"b":` + string(body) + `}`))
	inner.Inner("a", strictjson.Required).RejectUnknown()
	inner.Inner("b", strictjson.Required).RejectUnknown()
	if got := len(inner.Faults()); got != atrium.MaxFaults {
		t.Errorf("inner objects have %d faults", got)
	}
}

func TestDuplicateNamesAreRejectedInObjectsOfAnySize(t *testing.T) {
	for _, shape := range jsonshape.All {
		body := string(shape.Make(64 << 10))
		name, err := jsontext.AppendUnquote(nil, `"`+strings.SplitN(body, `"`, 3)[1]+`"`)
		if err != nil {
			t.Fatal(err)
		}
		first := string(name)
		for what, with := range map[string]string{"unchanged": first, "escaped": fmt.Sprintf(`\u%04x%s`, first[0], first[1:])} {
			twice := strings.TrimSuffix(body, "}") + `,"` + with + `":1}`
			where := "/" + first
			if len(where) > 256 {
				where = ""
			}
			wantDuplicate(t, shape.Name+" "+what, twice, where)
			wantDuplicate(t, shape.Name+" inside "+what, `{"x":[0,`+twice+`]}`, strings.TrimSuffix("/x/1"+where, "/"))
		}
	}
	wantDuplicate(t, "first of several", `{"a":{"b":{"c":1,"c":2},"b":3},"a":4}`, "/a/b/c")
	wantDuplicate(t, "before an inner one", `{"a":1,"a":{"b":1,"b":1}}`, "/a")
	wantDuplicate(t, "one name many times", `{"a":[{`+strings.Repeat(`"n":0,`, 100_000)+`"n":0}]}`, "/a/0/n")
	wantDuplicate(t, "escaped in different ways", `{"\u006e~/":1,"n~\/":1}`, "/n~0~1")
	for _, fine := range []string{`{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}`, `{"a\"":1,"a\\":1,"a":":","":1,"a\"\\\"":{}}`, `{"a":["a","a"],"b":"a"}`} {
		if _, err := strictjson.Parse([]byte(fine)); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func wantDuplicate(t *testing.T, what, body, where string) {
	t.Helper()
	_, err := strictjson.Parse([]byte(body))
	wantFault(t, what, err, where, "duplicates the name of an earlier field")
}
