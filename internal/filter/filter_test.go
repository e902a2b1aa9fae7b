package filter

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"atrium/internal/expression"
)

// entry is an event about an entry.
var entry = Event{
	Type: "account_log.created", Source: "crm", EntryType: "deal.won", AccountID: "account_00000000000000000000000001",
	Body: []byte(`{"id":"event_1","type":"account_log.created","position":7,"data":{"payload":{"amount":4200.5,"seats":3,"tags":["new","eu"],"owner":null,` +
		`"big":12345678901234567890123,"plan":{"name":"Pro"}},"source":"crm"}}`),
}

func TestExpressionsSelectEvents(t *testing.T) {
	for source, want := range map[string]bool{
		"true":                          true,
		`type == "account_log.created"`: true,
		`type.startsWith("page.")`:      false,
		`source == "crm" && entryType in ["deal.won", "deal.lost"]`:          true,
		`accountId == "account_00000000000000000000000001"`:                  true,
		`data.payload.amount > 4200`:                                         true,
		`data.payload.amount > 4200.5`:                                       false,
		`data.payload.seats == 3`:                                            true,
		`data.payload.seats == 3.0`:                                          true,
		`data.payload.tags.exists(t, t == "eu")`:                             true,
		`data.payload.owner == null`:                                         true,
		`has(data.payload.owner) && !has(data.payload.region)`:               true,
		`data.payload.?region.orValue("none") == "none"`:                     true,
		`data.payload.plan.name.lowerAscii() == "pro"`:                       true,
		`data.payload.plan.name.matches("^P[a-z]+$")`:                        true,
		`data.payload.big == "12345678901234567890123"`:                      true,
		"data.payload[\"amount\"] < 1.0 ||\n  data.payload.tags.size() == 2": true,
		`size(data) == 2 && data.source == source`:                           true,
	} {
		f, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		for range 2 {
			if got, err := f.Match(entry); err != nil || got != want {
				t.Errorf("%s: %t, %v, want %t", source, got, err, want)
			}
		}
	}
}

func TestFaultsPointIntoTheExpression(t *testing.T) {
	for _, c := range []struct {
		source, message string
		line, column    int
	}{
		{"", "", 1, 1},
		{"true &&", "Syntax error", 1, 8},
		{"true &&\n  unknown == 1", "undeclared reference to 'unknown'", 2, 3},
		{`"ü" == "ü" && tpye == "x"`, "undeclared reference to 'tpye'", 1, 15},
		{"type == 1", "found no matching overload", 1, 6},
		{"source", "must be a bool, not string", 1, 1},
		{"{}", "must be a bool", 1, 1},
		{`timestamp("2026-03-02T09:00:00Z") < timestamp("2027-03-02T09:00:00Z")`, "undeclared reference to 'timestamp'", 1, 10},
		{`duration("1s") == duration("1s")`, "undeclared reference to 'duration'", 1, 9},
		{"now() == 1", "undeclared reference to 'now'", 1, 4},
		{strings.Repeat(" ", expression.MaxSource) + "1", "at most 4096 bytes", 1, 1},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), "", 1, 1},
		{`type.matches("(a")`, "invalid matches argument", 1, 14},
		{`type.matches("(a{1000}){1000}")`, "", 1, 14},
		{`type.replace("a", "b") == ""`, "replace is not available", 1, 13},
		{`data.list.join(data.text) == ""`, "the separator of join must be a literal", 1, 15},
		{`data.list.join("` + strings.Repeat("x", 17) + `") == ""`, "at most 16 bytes", 1, 15},
		{`"%s%s".format([type, type]) == ""`, "format is not available", 1, 14},
		{`type.matches(source)`, "must be a literal", 1, 13},
		{strings.Repeat("type.matches('a') || ", 10) + "type.matches('a')", "10 times at most", 1, 223},
	} {
		_, err := Compile(c.source)
		faults, ok := errors.AsType[*expression.Error](err)
		if !ok || len(faults.Faults) == 0 {
			t.Errorf("%.100q: %v", c.source, err)
			continue
		}
		f := faults.Faults[0]
		if !strings.Contains(f.Message, c.message) || c.message != "" && (f.Line != c.line || f.Column != c.column) {
			t.Errorf("%.100q: %+v, want line %d, column %d: %s", c.source, f, c.line, c.column, c.message)
		}
		if in := faults.In("/filter"); len(in) != len(faults.Faults) || in[0].Where != "/filter" || !strings.HasPrefix(in[0].Detail, "line ") {
			t.Errorf("%.100q: %+v", c.source, in)
		}
	}
	_, err := Compile("a == 1 && b == 2 && c == 3")
	if faults, ok := errors.AsType[*expression.Error](err); !ok || len(faults.Faults) != 3 {
		t.Errorf("%v, want three faults", err)
	}
	_, err = Compile("\"\x1b[2J\u202e\" == x\x1b")
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
		t.Errorf("the message is not printable: %q", err)
	}
}

func TestEvaluationThatFailsIsAnError(t *testing.T) {
	for source, message := range map[string]string{
		`data.payload.region == "eu"`:       "no such key: region",
		`data.payload.tags[9] == "x"`:       "index out of bounds",
		`data.payload.amount.size() > 1`:    "no such overload",
		`data.payload.seats / 0 == 1`:       "division by zero",
		`data.payload.owner`:                "must be a bool, not null_type",
		`data.payload.plan.name.name == ""`: "no such",
	} {
		f, err := Compile(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := f.Match(entry); err == nil || got || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %t, %v, want %q", source, got, err, message)
		}
	}
	f, err := Compile("true")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "[]", "{}", `{"data":1}`, `{"data":{"a":`, `{"data":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`} {
		if _, err := f.Match(Event{Body: []byte(body)}); err == nil {
			t.Errorf("%.50s is an event", body)
		}
	}
}

// Lists of 1,000 and 9,000 numbers, and a string of 16,000 bytes: as much as an event can have.
var (
	large = Event{Body: []byte(`{"data":{"list":[` + strings.Repeat("1,", 999) + `1],"text":"` + strings.Repeat("a", 16000) + `"}}`)}
	long  = Event{Body: []byte(`{"data":{"list":[` + strings.Repeat("1,", 8999) + `1]}}`)}
)

func TestEvaluationIsBounded(t *testing.T) {
	for _, c := range []struct {
		source  string
		event   Event
		refused bool
	}{
		{"data.list.all(a, data.list.all(b, a == b))", large, true},
		{"data.list.map(a, data.list.map(b, data.list)).size() > 0", large, true},
		{`data.list.map(a, data.text + data.text).size() > 0`, large, true},
		{`data.list.exists(a, data.text.matches("(.*)(.*)(.*)(.*)b"))`, large, true},
		{`data.list.exists(a, data.text.matches("(a|aa|aaa){20}b$"))`, large, true},
		{`data.text.split("").map(x, data.text).size() > 0`, large, true},
		{`data.list.all(a, data.list.all(b, size(data.text) > 0))`, large, true},
		{`data.list.all(a, data.list.all(b, bytes(data.text).size() > 0))`, large, true},
		{`data.list.all(a, !(2 in data.list))`, long, true}, // 81 million comparisons
		{`data.list.all(a, (data.list + data.list).size() > 0)`, long, true},
		{`data.list.all(a, data.list == data.list)`, long, true},
		{`data.list.map(a, a).map(a, a).size() > 0`, long, true},
		{`(data.text + data.text + data.text).startsWith("a")`, large, false},
		{`data.list.exists(a, a == 1) && !(2 in data.list)`, long, false},
		{`data.text.matches("^a+$")`, large, false},
		{`data.list.map(a, data.text).join(", ") == ""`, large, true},
		{`data.text.split("a").join(", ").size() > 0`, large, true},
		{`data.list.map(a, string(a)).join(", ").size() > 0`, large, false},
	} {
		f, err := Compile(c.source)
		if err != nil {
			t.Errorf("%.100s: %v", c.source, err)
			continue
		}
		// The steps of the library are not visible: the cost of calls is, and so is memory.
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = f.Match(c.event)
		runtime.ReadMemStats(&after)
		if (err != nil) != c.refused {
			t.Errorf("%.100s: %v, want an error: %t", c.source, err, c.refused)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
			t.Errorf("%.100s allocated %d MiB", c.source, allocated>>20)
		}
	}
}

func TestLargeEventsAreNotEvaluated(t *testing.T) {
	f, err := Compile("true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Match(Event{Body: []byte(`{"data":{"claimed":"` + strings.Repeat("a", maxBody) + `"}}`)}); !errors.Is(err, errTooLarge) {
		t.Errorf("%v, want %v", err, errTooLarge)
	}
}

func TestLastOfRepeatedMembersCounts(t *testing.T) {
	f, err := Compile("data.a == 2")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Match(Event{Body: []byte(`{"data":{"a":1,"a":2}}`)}); err != nil || !got {
		t.Errorf("%t, %v", got, err)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`type == "page.published"`)
	f.Add(`data.payload.tags.exists(t, t == "eu") ? true : data.x[0] > 1.5e3`)
	f.Add("((((")
	f.Fuzz(func(t *testing.T, source string) {
		filter, err := Compile(source)
		if err != nil {
			if e, ok := errors.AsType[*expression.Error](err); !ok || len(e.Faults) == 0 {
				t.Fatalf("%q: %v", source, err)
			}
			return
		}
		_, _ = filter.Match(entry) // must end, without a panic
	})
}

func FuzzMatch(f *testing.F) {
	compiled, err := Compile(`data.exists(k, data[k] == 1)`)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(entry.Body)
	f.Add(large.Body)
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = compiled.Match(Event{Body: body}) // must end, without a panic
	})
}
