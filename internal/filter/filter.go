// Package filter selects events by expressions in CEL.
package filter

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"atrium/internal/expression"
)

// An Event is what an expression sees.
type Event struct {
	Type      string // variable type
	Source    string // variable source: of the entry, "" for other events
	EntryType string // variable entryType: the type of the entry, "" for other events
	AccountID string // variable accountId: "" for none
	Body      []byte // our JSON form of the event; its member data is the variable data
}

// A Filter is a compiled expression. It is safe for concurrent use.
type Filter struct {
	program *expression.Program
}

var language = sync.OnceValues(func() (*expression.Language, error) {
	return expression.New(map[string]expression.Type{
		"type": expression.String, "source": expression.String, "entryType": expression.String, "accountId": expression.String, "data": expression.Map,
	})
})

// Compile compiles an expression, whose result must be a bool. The faults of the expression are an *expression.Error.
func Compile(source string) (*Filter, error) {
	l, err := language()
	if err != nil {
		return nil, err
	}
	program, err := l.Compile(source, expression.Bool)
	if err != nil {
		return nil, err
	}
	return &Filter{program}, nil
}

// maxBody is the maximum number of bytes of an event that is evaluated.
const maxBody = 64 << 10

var errTooLarge = fmt.Errorf("the event is larger than %d bytes", maxBody)

// Match reports whether the expression selects an event. An error says that the evaluation failed, for example
// because the data has no such member, or exceeded its limits.
func (f *Filter) Match(e Event) (bool, error) {
	if len(e.Body) > maxBody {
		return false, errTooLarge
	}
	data, err := decodeData(e.Body)
	if err != nil {
		return false, err
	}
	result, _, err := f.program.Eval(map[string]any{
		"type": e.Type, "source": e.Source, "entryType": e.EntryType, "accountId": e.AccountID, "data": data,
	})
	matches, _ := result.(bool)
	return matches, err
}

// decodeData returns the member data of an event.
func decodeData(body []byte) (map[string]any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("decode event: %w", err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("decode event: %w", err)
		}
		if name.String() != "data" {
			if err := d.SkipValue(); err != nil {
				return nil, fmt.Errorf("decode event: %w", err)
			}
			continue
		}
		value, err := expression.Decode(d)
		if err != nil {
			return nil, fmt.Errorf("decode event: %w", err)
		}
		if data, ok := value.(map[string]any); ok {
			return data, nil
		}
		break
	}
	return nil, errors.New("decode event: it has no object data")
}
