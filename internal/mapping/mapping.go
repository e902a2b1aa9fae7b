// Package mapping turns deliveries to receivers into submissions, by the expressions of a receiver's Mapping. It does no I/O.
package mapping

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/expression"
	"atrium/internal/provider"
)

// maxCost is the maximum cost of all expressions for all elements of a delivery. It is a few seconds of processor time at
// most; the mappings of providers need a hundredth of it for the largest array.
const maxCost = 2_000_000

// A Mapping is the compiled mapping of a receiver. It is safe for concurrent use.
type Mapping struct {
	receiver atrium.ReceiverID
	source   string
	programs [memberCount]*expression.Program // nil for an expression that is ""
	memory   int                              // estimate of the bytes that the programs occupy
	slice    time.Duration                    // how long Map evaluates expressions before it calls pause
}

// The members of a mapping.
const (
	memberFilter = iota
	memberType
	memberAccountID
	memberDomain
	memberEmail
	memberName
	memberOccurredAt
	memberEventID
	memberCount
)

var optionalString = []expression.Type{expression.String, expression.Null}

// members has the names of the members in the management API, and the types of their results.
var members = [memberCount]struct {
	name    string
	results []expression.Type
}{
	{"filter", []expression.Type{expression.Bool}},
	{"type", optionalString},
	{"accountId", optionalString},
	{"domain", optionalString},
	{"email", optionalString},
	{"name", optionalString},
	{"occurredAt", []expression.Type{expression.String, expression.Int, expression.Double, expression.Null}},
	{"eventId", []expression.Type{expression.String, expression.Int, expression.Null}},
}

// language has the variables of all mappings.
var language = sync.OnceValues(func() (*expression.Language, error) {
	return expression.New(map[string]expression.Type{"body": expression.Any, "headers": expression.StringMap, "query": expression.StringMap})
})

// An Error has the faults of a mapping that does not compile.
type Error struct {
	Members []MemberError // at least one
}

// A MemberError has the faults of one expression.
type MemberError struct {
	Name string // of the member in the management API
	*expression.Error
}

// Error returns the faults, separated by semicolons.
func (e *Error) Error() string {
	all := make([]string, len(e.Members))
	for i, m := range e.Members {
		all[i] = m.Name + ": " + m.Error.Error()
	}
	return strings.Join(all, "; ")
}

// In returns the faults as those of a member of a body, such as /mapping.
func (e *Error) In(pointer string) (faults []atrium.Fault) {
	for _, m := range e.Members {
		faults = append(faults, m.In(pointer+"/"+m.Name)...)
	}
	return faults
}

// Compile compiles the mapping of a receiver, with the expressions of its provider for those that are "". If one has
// faults, the error is an *Error.
func Compile(id atrium.ReceiverID, spec *atrium.ReceiverSpec) (*Mapping, error) {
	l, err := language()
	if err != nil {
		return nil, err
	}
	all, m, faults := provider.Complete(spec), &Mapping{receiver: id, source: spec.Source, slice: usualSlice}, &Error{}
	for i, source := range []string{all.Filter, all.Type, all.AccountID, all.Domain, all.Email, all.Name, all.OccurredAt, all.EventID} {
		if source == "" {
			continue
		}
		m.programs[i], err = l.Compile(source, members[i].results...)
		if e, ok := errors.AsType[*expression.Error](err); ok {
			faults.Members = append(faults.Members, MemberError{members[i].name, e})
		} else if err != nil {
			return nil, err
		} else {
			m.memory += m.programs[i].Memory()
		}
	}
	if len(faults.Members) > 0 {
		return nil, faults
	}
	return m, nil
}

// A Result is what an element of a delivery becomes.
type Result struct {
	atrium.Submission      // with its idempotency key
	Filtered          bool // the filter left it out; the submission has its payload only
	Element           int  // as in Fault
}

// A Fault says why a delivery cannot be mapped. Its text has no value of the delivery, except for names.
type Fault struct {
	Element int    // of an array, from 0; -1 if it is the only one, or for a fault of the whole delivery
	Member  string // of the mapping; "" if the payload is at fault
	Detail  string // with line and column if the expression failed
}

// maxFault is the maximum number of code points of the text of a fault.
const maxFault = 1000

// Error returns the fault in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Element >= 0 {
		fmt.Fprintf(&b, "element %d: ", f.Element)
	}
	if f.Member != "" {
		b.WriteString(f.Member + ": ")
	}
	b.WriteString(f.Detail)
	return atrium.Shorten(maxFault, atrium.Printable(b.String()))
}

// Pauses of Map.
const (
	usualSlice = 50 * time.Millisecond
	maxPausing = 4 << 10 // bytes of a payload that is in memory, decoded, during a pause
)

// The estimates of memory.
const (
	elementMemory = 500 // bytes of a Result and of its draft, without texts
	decodedMemory = 80  // bytes of a decoded payload for each of its bytes, at most
)

// Memory returns an estimate of the bytes that results and their drafts occupy, without payloads. It is usually larger than
// what they do.
func Memory(results []Result) int {
	sum := len(results) * elementMemory
	for i := range results {
		r := &results[i]
		// A draft has the domain in two forms, and the name in lower case, which can be three times as long.
		sum += len(r.Type) + len(r.Claim.AccountID) + 3*len(r.Claim.Domain) + 4*len(r.Claim.Name) + 2*len(r.IdempotencyKey)
	}
	return sum
}

// A Pause lets others use the processor, while the evaluation occupies memory in bytes, as estimated. It returns the mapping to
// continue with, which is the same one, or one compiled again: Map keeps none during a pause, so that deliveries that wait do not
// occupy more memory than a Cache.
type Pause func(memory int) (*Mapping, error)

// Map returns what the elements of a delivery become, in order. maxPayload is the maximum number of bytes of a payload. A
// delivery is mapped completely or not at all: an error is a *Fault, or one of pause. Map calls pause, unless it is nil, when
// it has used a processor for some time: between two elements, or between two expressions of a small one.
func (m *Mapping) Map(d *Delivery, maxPayload int, pause Pause) ([]Result, error) {
	elements, fault := d.split(maxPayload)
	if fault != nil {
		return nil, fault
	}
	variables := map[string]any{"headers": d.headers(), "query": d.query()}
	results, used := make([]Result, len(elements.payloads)), map[string]int{}
	e := evaluation{mapping: m, receiver: m.receiver, source: m.source, variables: variables, results: results, left: maxCost, began: time.Now()}
	for i, payload := range elements.payloads {
		delete(variables, "body")
		e.pause, e.decoded = pause, 0
		if e.mayPause(); e.err != nil {
			return nil, e.err
		}
		body, err := decode(payload)
		if err != nil {
			return nil, &Fault{elements.number(i), "", err.Error()}
		}
		variables["body"], e.decoded = body, decodedMemory*len(payload)
		if len(payload) > maxPausing {
			e.pause = nil
		}
		results[i] = e.run(payload, used)
		results[i].Element = elements.number(i)
		if e.err != nil {
			return nil, e.err
		}
		if e.fault != nil {
			e.fault.Element = elements.number(i)
			return nil, e.fault
		}
	}
	return results, nil
}

// An evaluation maps the elements of a delivery.
type evaluation struct {
	mapping   *Mapping // nil during a pause, and after one that failed
	receiver  atrium.ReceiverID
	source    string
	variables map[string]any
	decoded   int // bytes of the payload in variables, as estimated
	results   []Result
	left      int       // of maxCost
	began     time.Time // when it began, or pause last returned
	pause     Pause     // nil for none
	err       error     // of pause
	fault     *Fault    // the first one
}

// mayPause calls pause, if it is time to, and keeps its error.
func (e *evaluation) mayPause() {
	if e.pause != nil && time.Since(e.began) > e.mapping.slice {
		e.mapping = nil
		e.mapping, e.err = e.pause(e.decoded + Memory(e.results))
		e.began = time.Now()
	}
}

func (e *evaluation) fail(member int, detail string) {
	if e.fault == nil {
		e.fault = &Fault{-1, members[member].name, detail}
	}
}

// value evaluates a member. It returns nil for one without an expression, and after a fault.
func (e *evaluation) value(member int) any {
	if e.fault != nil || e.err != nil || e.mapping.programs[member] == nil {
		return nil
	}
	if e.mayPause(); e.err != nil {
		return nil
	}
	result, cost, err := e.mapping.programs[member].Eval(e.variables)
	if e.left -= cost; err == nil && e.left < 0 {
		err = errors.New("the delivery has too many elements for what the mapping costs")
	}
	if err != nil {
		e.fail(member, err.Error())
		return nil
	}
	return result
}

// string evaluates a member that is a string, "" for none.
func (e *evaluation) string(member int, check func(string) string) string {
	result, _ := e.value(member).(string)
	if result != "" {
		if detail := check(result); detail != "" {
			e.fail(member, "the result "+detail)
		}
	}
	return strings.Clone(result) // it can be a part of a string that is much longer
}

func (e *evaluation) run(payload []byte, used map[string]int) (r Result) {
	r.Payload = payload
	if pass, ok := e.value(memberFilter).(bool); ok && !pass {
		r.Filtered = true
		return r
	}
	upTo := func(most int) func(string) string {
		return func(text string) string { return atrium.CheckText(text, 1, most) }
	}
	r.Source = e.source
	if r.Type = e.string(memberType, upTo(atrium.MaxType)); r.Type == "" {
		r.Type = atrium.DefaultType
	}
	r.Claim.AccountID = atrium.AccountID(e.string(memberAccountID, func(text string) string {
		if _, ok := atrium.ParseID[atrium.AccountID](text); !ok {
			return "must match ^account_[a-z0-9]{26}$"
		}
		return ""
	}))
	if r.Claim.Domain = e.string(memberDomain, atrium.CheckDomain); r.Claim.Domain == "" {
		r.Claim.Domain = strings.Clone(domainOfEmail(e.string(memberEmail, func(string) string { return "" })))
	}
	r.Claim.Name = e.string(memberName, upTo(atrium.MaxName))
	r.OccurredAt = e.time()
	id := ""
	switch value := e.value(memberEventID).(type) {
	case string:
		id = strings.Clone(value)
	case int64:
		id = strconv.FormatInt(value, 10)
	}
	r.IdempotencyKey = key(e.receiver, id, payload, used)
	return r
}

// time evaluates the time at which the event occurred.
func (e *evaluation) time() *atrium.Time {
	const maxSeconds = 100_000_000_000 // a larger number has milliseconds: in seconds, it would be after the year 5000
	var milliseconds float64
	switch value := e.value(memberOccurredAt).(type) {
	case string:
		if value == "" {
			return nil
		}
		at, err := atrium.ParseTime(value)
		if err != nil {
			e.fail(memberOccurredAt, "the result "+err.Error())
		}
		return &at
	case int64:
		milliseconds = float64(value) // exact below 2^53, which is after the year 9999
	case float64:
		milliseconds = value
	default:
		return nil
	}
	if math.Abs(milliseconds) < maxSeconds {
		milliseconds *= 1000
	}
	const first, last = -62_167_219_200_000, 253_402_300_799_999 // of the years 0 to 9999
	if !(milliseconds >= first && milliseconds <= last) {        // also if it is not a number
		e.fail(memberOccurredAt, "the result must be between the years 0000 and 9999")
		return nil
	}
	at := atrium.Time(math.Floor(milliseconds)) * 1000
	return &at
}

// hostCharacters are those of host names in canonical form.
const hostCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-."

// domainOfEmail returns the domain of an email address whose users belong together; "" if it has none.
func domainOfEmail(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return ""
	}
	domain := strings.Trim(address[at+1:], " >")
	normal := canonical.Domain(domain)
	if atrium.CheckDomain(domain) != "" || !strings.Contains(normal, ".") || strings.Trim(normal, hostCharacters) != "" || isPublicMail(normal) {
		return ""
	}
	return domain
}
