// Package expression compiles and evaluates expressions in CEL, the Common Expression Language. Expressions read only their
// variables. The cost and memory of compilation and evaluation are bounded.
package expression

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"atrium"
)

// Limits of an expression.
const (
	MaxSource = 4 << 10 // bytes
	MaxCost   = 100_000 // of an evaluation: see costs

	maxValueUnits        = 10_000 // of a value during an evaluation: elements of lists and maps, and every ten bytes of strings
	memorySampleInterval = 100    // how many values a macro such as map has for each one that it measures: measuring takes time
	maxNodes             = 2000   // of the syntax tree, with expanded macros
	maxNested            = 50
	maxRegexpInsts       = 200 // instructions of a compiled regular expression
	maxMatchesCalls      = 10  // compiling a regular expression takes milliseconds
	maxFoldedRanges      = 10  // of characters beyond ASCII in regular expressions that ignore case: folding each takes milliseconds
	maxUnicodeClasses    = 20  // in regular expressions, such as \pL: each has hundreds of ranges
	maxComputedKeyMaps   = 4   // each can double the size of a type
)

// maxMessage is the maximum number of bytes of the message of a fault.
const maxMessage = 300

// A Type is the type of a variable or of a result.
type Type struct {
	name string
	cel  *cel.Type
}

// The types.
var (
	Bool      = Type{"a bool", cel.BoolType}
	Int       = Type{"an int", cel.IntType}
	Double    = Type{"a double", cel.DoubleType}
	String    = Type{"a string", cel.StringType}
	Null      = Type{"null", cel.NullType}
	Any       = Type{"anything", cel.DynType}                                         // what Decode returns
	Map       = Type{"a map", cel.MapType(cel.StringType, cel.DynType)}               // a map[string]any of such values
	StringMap = Type{"a map of strings", cel.MapType(cel.StringType, cel.StringType)} // a map[string]string
)

// Functions that expressions cannot use.
var (
	// timeFunctions would make the result depend on the machine's time zone database.
	timeFunctions = []string{
		"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes",
		"getMonth", "getSeconds",
	}

	// One call of an unbounded function can multiply the lengths of two values. The limits are checked after the call.
	unboundedFunctions = []string{"replace", "format"}
)

// A Language compiles expressions with the same variables. It is safe for concurrent use.
type Language struct {
	env *cel.Env
}

// New returns the language with the given variables.
func New(variables map[string]Type) (*Language, error) {
	subset := env.NewLibrarySubset()
	for _, name := range timeFunctions {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)), cel.OptionalTypes(), ext.Strings(), cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxSource), cel.ParserRecursionLimit(maxNested), cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegexpInsts), cel.ASTValidators(cel.ValidateRegexLiterals()),
	}
	options = append(options, searches()...)
	for name, kind := range variables {
		options = append(options, cel.Variable(name, kind.cel))
	}
	all, err := cel.NewCustomEnv(options...)
	return &Language{all}, err
}

// A Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	program cel.Program
	places  []place // by the identifier of a node; zero for one whose place is not known
	results []Type
	memory  int
}

// Memory returns an estimate of the bytes that the program occupies. It is usually larger than what it does.
func (p *Program) Memory() int { return p.memory }

// The estimate of Memory. A node takes 50 to 240 bytes.
const (
	programMemory = 4 << 10
	nodeMemory    = 280
)

// A place is a position in the source. The column counts code points.
type place struct{ line, column uint16 } // both from 1, and less than MaxSource+2

// placesOf returns the places of the nodes of a tree.
func placesOf(tree *ast.AST) []place {
	info := tree.SourceInfo()
	offsets, last := info.OffsetRanges(), int64(0)
	for id := range offsets {
		last = max(last, id)
	}
	places := make([]place, last+1)
	for id := range offsets {
		if at := info.GetStartLocation(id); at != common.NoLocation {
			places[id] = place{uint16(max(at.Line(), 1)), uint16(max(at.Column(), 0) + 1)}
		}
	}
	return places
}

// Compile compiles an expression whose result must be one of the given types, or an optional of one. If the type depends on an
// Any variable, Eval checks it instead. The faults of the expression are an *Error.
func (l *Language) Compile(source string, results ...Type) (*Program, error) {
	if len(source) > MaxSource {
		return nil, &Error{[]Fault{{1, 1, fmt.Sprintf("the expression must be at most %d bytes long", MaxSource)}}}
	}
	parsed, issues := l.env.Parse(source)
	if issues.Err() != nil {
		return nil, newError(source, issues)
	}
	issues = cel.NewIssuesWithSourceInfo(common.NewErrors(parsed.Source()), parsed.NativeRep().SourceInfo())
	if checkCalls(parsed.NativeRep(), issues); issues.Err() != nil {
		return nil, newError(source, issues)
	}
	compiled, issues := l.env.Check(parsed)
	if issues.Err() != nil {
		return nil, newError(source, issues)
	}
	issues = cel.NewIssuesWithSourceInfo(common.NewErrors(parsed.Source()), compiled.NativeRep().SourceInfo())
	if checkOptionals(compiled.NativeRep(), issues); issues.Err() != nil {
		return nil, newError(source, issues)
	}
	kind := compiled.OutputType()
	if kind.TypeName() == "optional_type" && len(kind.Parameters()) == 1 {
		kind = kind.Parameters()[0]
	}
	tree := compiled.NativeRep()
	p := &Program{places: placesOf(tree), results: results} // not the tree, which takes more memory than the program
	if kind != cel.DynType && !slices.ContainsFunc(results, func(r Type) bool { return kind.IsExactType(r.cel) }) {
		return nil, &Error{[]Fault{{1, 1, p.mustBe(shorten(kind.String()))}}}
	}
	var err error
	costs, regexps := costsOf(tree)
	p.memory = programMemory + 2*len(source) + nodeMemory*len(p.places) + regexps
	if p.program, err = l.env.Program(compiled, cel.CostTracking(costs), cel.CostLimit(MaxCost), cel.MemoryLimit(maxValueUnits),
		cel.CustomDecoratorV2(decorator(tree)), cel.MemoryTracking(types.MemoryTrackerSampleInterval(memorySampleInterval)), cel.OptimizeRegex(regexpOptimization)); err != nil {
		return nil, &Error{[]Fault{{1, 1, shorten(err.Error())}}}
	}
	return p, nil
}

// mustBe returns the message about a result of another type.
func (p *Program) mustBe(not string) string {
	names := make([]string, len(p.results))
	for i, r := range p.results {
		names[i] = r.name
	}
	return "the result must be " + strings.Join(names, " or ") + ", not " + not
}

// Eval evaluates the expression. The result is a bool, int64, float64, string or nil. nil also stands for an empty optional. cost
// is the part of MaxCost that was used. The error is an *Error with one fault.
func (p *Program) Eval(variables map[string]any) (result any, cost int, err error) {
	value, details, err := p.program.Eval(variables)
	if spent := details.ActualCost(); spent != nil {
		cost = int(*spent)
	}
	if err != nil {
		return nil, cost, p.failed(err)
	}
	if optional, ok := value.(*types.Optional); ok {
		switch {
		case optional.HasValue():
			value = optional.GetValue()
		case p.returns(Null):
			return nil, cost, nil
		default:
			return nil, cost, &Error{[]Fault{{1, 1, p.mustBe("an empty optional")}}}
		}
	}
	switch value := value.(type) {
	case types.Bool:
		if p.returns(Bool) {
			return bool(value), cost, nil
		}
	case types.Int:
		if p.returns(Int) {
			return int64(value), cost, nil
		}
	case types.Double:
		if p.returns(Double) {
			return float64(value), cost, nil
		}
	case types.String:
		if p.returns(String) {
			return string(value), cost, nil
		}
	case types.Null:
		if p.returns(Null) {
			return nil, cost, nil
		}
	}
	return nil, cost, &Error{[]Fault{{1, 1, p.mustBe(shorten(value.Type().TypeName()))}}}
}

func (p *Program) returns(kind Type) bool {
	return slices.ContainsFunc(p.results, func(r Type) bool { return r == kind })
}

// failed returns the error of an evaluation, with the place of what failed if it is known.
func (p *Program) failed(err error) error {
	fault := Fault{1, 1, shorten(err.Error())}
	if e, ok := errors.AsType[*types.Err](err); ok && e.NodeID() != 0 {
		if id := e.NodeID(); id > 0 && id < int64(len(p.places)) && p.places[id] != (place{}) {
			fault.Line, fault.Column = int(p.places[id].line), int(p.places[id].column)
		}
	}
	return &Error{[]Fault{fault}}
}

// A Fault is one fault of an expression or of its evaluation.
type Fault struct {
	Line, Column int // both from 1; the column counts code points
	Message      string
}

// An Error has the faults of an expression.
type Error struct {
	Faults []Fault // at least one
}

// unquotedString matches an expression that is meant as a string: a word or a domain without quotes.
var unquotedString = regexp.MustCompile(`^[\pL\pN_-]+(\.[\pL\pN_-]+)*$`)

func newError(source string, issues *cel.Issues) *Error {
	e := &Error{}
	for _, issue := range issues.Errors() {
		if len(e.Faults) == atrium.MaxFaults {
			break
		}
		message := shorten(issue.Message)
		if strings.HasPrefix(message, "undeclared reference") && unquotedString.MatchString(source) {
			message += `: write string literals in quotes, such as "text"`
		}
		e.Faults = append(e.Faults, Fault{max(issue.Location.Line(), 1), max(issue.Location.Column(), 0) + 1, message})
	}
	if len(e.Faults) == 0 {
		e.Faults = []Fault{{1, 1, shorten(issues.Err().Error())}}
	}
	return e
}

// Error returns the faults, separated by semicolons.
func (e *Error) Error() string {
	all := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		all[i] = f.String()
	}
	return strings.Join(all, "; ")
}

// String returns the fault with its place.
func (f Fault) String() string {
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Message)
}

// In returns the faults as those of a member of a body.
func (e *Error) In(pointer string) (faults []atrium.Fault) {
	for _, f := range e.Faults {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: pointer, Detail: f.String()})
	}
	return faults
}

// shorten returns the beginning of a message as one printable line: it can have parts of the expression.
func shorten(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return atrium.ShortLine(maxMessage, line)
}
