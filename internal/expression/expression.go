// Package expression runs expressions in CEL, the Common Expression Language. An expression sees its variables, and
// neither the time nor the network. What compiling and evaluating it can cost is bounded.
package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"atrium"
)

// Limits of an expression.
const (
	MaxSource = 4 << 10 // bytes
	MaxCost   = 100_000 // of an evaluation: see costs

	maxMemory = 10_000 // units of a value during an evaluation: elements of lists and maps, and each ten bytes of texts
	measured  = 100    // of so many values in a macro such as map, one is measured: that takes time for each of its elements
	maxNodes  = 2000   // of the syntax tree, with expanded macros
	maxNested = 50
	maxRegexp = 200 // instructions of a compiled regular expression
	maxCalls  = 10  // of matches: compiling a regular expression takes milliseconds
	maxRanges = 10  // of characters beyond ASCII in regular expressions that ignore case: each takes milliseconds
	maxTables = 20  // of Unicode in regular expressions, such as \pL: each has hundreds of ranges
	maxKeys   = 4   // maps whose keys are computed: each can double the size of a type
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
	Bool   = Type{"a bool", cel.BoolType}
	Int    = Type{"an int", cel.IntType}
	Double = Type{"a double", cel.DoubleType}
	Text   = Type{"a text", cel.StringType}
	Null   = Type{"null", cel.NullType}
	Any    = Type{"anything", cel.DynType}                                       // what Decode returns
	Object = Type{"a map", cel.MapType(cel.StringType, cel.DynType)}             // a map[string]any of such values
	Texts  = Type{"a map of texts", cel.MapType(cel.StringType, cel.StringType)} // a map[string]string
)

// excluded has the functions of the standard library that expressions cannot use: they would make the result
// depend on the time zones that the machine knows.
var excluded = []string{
	"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes",
	"getMonth", "getSeconds",
}

// A Language compiles expressions with the same variables. It is safe for concurrent use.
type Language struct {
	env *cel.Env
}

// New returns the language with the given variables.
func New(variables map[string]Type) (*Language, error) {
	subset := env.NewLibrarySubset()
	for _, name := range excluded {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)), cel.OptionalTypes(), ext.Strings(), cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxSource), cel.ParserRecursionLimit(maxNested), cel.ExpressionNodeLimit(maxNodes),
		cel.RegexProgramSizeLimit(maxRegexp), cel.ASTValidators(cel.ValidateRegexLiterals()),
	}
	options = append(options, searches()...)
	for name, kind := range variables {
		options = append(options, cel.Variable(name, kind.cel))
	}
	all, err := cel.NewCustomEnv(options...)
	return &Language{all}, err
}

// unbounded has the functions that expressions cannot use: the limits of an evaluation are checked after each step, and
// one call of these can multiply the lengths of two values.
var unbounded = []string{"replace", "format"}

// maxSeparator is the maximum number of bytes between the elements that join puts together.
const maxSeparator = 16

// checkCalls reports the calls whose cost has no bound. It comes before the check of types, which compiles regular
// expressions.
func checkCalls(tree *ast.AST, issues *cel.Issues) {
	root := ast.NavigateAST(tree)
	for _, name := range unbounded {
		for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher(name)) {
			issues.ReportErrorAtID(call.ID(), "the function %s is not available", name)
		}
	}
	for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher("join")) {
		for _, arg := range call.AsCall().Args() {
			if text, ok := literalOf(arg); !ok || len(text) > maxSeparator {
				issues.ReportErrorAtID(call.ID(), "the separator of join must be a literal of at most %d bytes", maxSeparator)
			}
		}
	}
	for _, message := range ast.MatchDescendants(root, ast.KindMatcher(ast.StructKind)) {
		issues.ReportErrorAtID(message.ID(), "messages such as %s are not available", shorten(message.AsStruct().TypeName()))
	}
	checkRegexps(root, issues)
	checkKeys(root, issues)
}

// checkOptionals reports optional elements of lists and maps that may have no optional value, after the check of types:
// each failure would print the value, whatever its size.
func checkOptionals(tree *ast.AST, issues *cel.Issues) {
	check := func(e ast.Expr) {
		if tree.GetType(e.ID()).TypeName() != "optional_type" {
			issues.ReportErrorAtID(e.ID(), "an optional element must be an optional value, such as body.?name")
		}
	}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), ast.AllMatcher()) {
		switch e.Kind() {
		case ast.ListKind:
			for _, i := range e.AsList().OptionalIndices() {
				check(e.AsList().Elements()[i])
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				if entry.AsMapEntry().IsOptional() {
					check(entry.AsMapEntry().Value())
				}
			}
		}
	}
}

// checkRegexps reports the calls of matches whose regular expressions take long to compile.
func checkRegexps(root ast.NavigableExpr, issues *cel.Issues) {
	ranges, tables := 0, 0
	for i, call := range ast.MatchDescendants(root, ast.FunctionMatcher("matches")) {
		if i == maxCalls {
			issues.ReportErrorAtID(call.ID(), "the function matches can be called %d times at most", maxCalls)
			break
		}
		args := call.AsCall().Args()
		if len(args) == 0 {
			continue
		}
		pattern, ok := literalOf(args[len(args)-1])
		if !ok {
			issues.ReportErrorAtID(call.ID(), "the regular expression of matches must be a literal")
			continue
		}
		if tables += strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`); tables > maxTables {
			issues.ReportErrorAtID(call.ID(), "regular expressions can have %d classes such as \\pL at most", maxTables)
			break
		}
		if ranges += foldedRanges(pattern); ranges > maxRanges {
			issues.ReportErrorAtID(call.ID(), "regular expressions that ignore case can have %d ranges of characters beyond ASCII at most", maxRanges)
			break
		}
	}
}

// foldedRanges returns how many ranges of characters in a regular expression may have to be folded character by
// character: those that end beyond ASCII, if a flag ignores case. It may count what is no range.
func foldedRanges(pattern string) (n int) {
	ignoresCase := false
	for rest := pattern; !ignoresCase; {
		_, after, found := strings.Cut(rest, "(?")
		if !found {
			return 0
		}
		rest = after
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU-"))]
		ignoresCase = strings.Contains(flags, "i")
	}
	for i := 1; i < len(pattern); i++ {
		if pattern[i-1] == '-' && (pattern[i] == '\\' || pattern[i] >= utf8.RuneSelf) {
			n++
		}
	}
	return n
}

// checkKeys reports maps with computed keys, if there are many. The check of types does not know that a map cannot be a
// key, so {a: a} has a type twice as large as that of a: a few of them in a row take hours and gigabytes to check.
func checkKeys(root ast.NavigableExpr, issues *cel.Issues) {
	computed := 0
	for _, m := range ast.MatchDescendants(root, ast.KindMatcher(ast.MapKind)) {
		if !slices.ContainsFunc(m.AsMap().Entries(), func(e ast.EntryExpr) bool { return e.AsMapEntry().Key().Kind() != ast.LiteralKind }) {
			continue
		}
		if computed++; computed > maxKeys {
			issues.ReportErrorAtID(m.ID(), "at most %d maps can have keys that are not literals", maxKeys)
			return
		}
	}
}

// literalOf returns a text that an expression is.
func literalOf(e ast.Expr) (text string, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	value, ok := e.AsLiteral().(types.String)
	return string(value), ok
}

// costs are the costs of calls. Those of the library assume that most functions take the same time for each value, and
// do not know the types of data: a search in a list of thousands could cost as much as an addition. Here, a call costs
// one, and one for each unit of the values that it gets and returns (see maxMemory). A regular expression can compare
// each byte with each of its instructions.
type costs struct {
	instructions map[string]uint64 // by regular expression: compiling one for each call would cost more than the call
}

// costsOf returns the costs of the calls in a tree.
func costsOf(tree *ast.AST) costs {
	c := costs{map[string]uint64{}}
	for _, call := range ast.MatchDescendants(ast.NavigateAST(tree), ast.FunctionMatcher("matches")) {
		for _, arg := range call.AsCall().Args() {
			if pattern, ok := literalOf(arg); ok {
				c.instructions[pattern] = instructionsOf(pattern)
			}
		}
	}
	return c
}

func (c costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if function == (construction{}).Function() {
		cost := unitsOf(result) / 10
		if cost > maxMemory/10 {
			cost = MaxCost + 1 // the limit of memory measures only some values in macros
		}
		return &cost
	}
	cost := 1 + unitsOf(result)
	for _, arg := range args {
		if optional, ok := arg.(*types.Optional); ok && optional.HasValue() && compares(function) {
			arg = optional.GetValue()
		}
		cost += unitsOf(arg)
	}
	if _, ok := result.(traits.Lister); ok && function == operators.Add {
		cost = 1 + cost/25 // lists are not copied; map and filter add one element to their result each time
	}
	if function == "matches" && len(args) == 2 {
		cost *= 1 + c.regexpCost(args[1])
	}
	return &cost
}

// compares reports whether a function compares its arguments. Others take the same time for any optional value.
func compares(function string) bool {
	return function == operators.Equals || function == operators.NotEquals || function == operators.In
}

var calculator = types.NewSizeCalculator()

// unitsOf returns the units of a value that is larger than a number.
func unitsOf(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	case traits.Lister, traits.Mapper:
		return uint64(calculator.AggregateSize(v))
	}
	return 0
}

// regexpCost returns how often a regular expression may look at each byte.
func (c costs) regexpCost(pattern ref.Val) uint64 {
	text, _ := pattern.(types.String)
	if n, ok := c.instructions[string(text)]; ok {
		return n
	}
	return maxRegexp
}

// instructionsOf returns the number of instructions of a regular expression.
func instructionsOf(pattern string) uint64 {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return maxRegexp
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return maxRegexp
	}
	return uint64(len(compiled.Inst))
}

// A Program is a compiled expression. It is safe for concurrent use.
type Program struct {
	program cel.Program
	tree    *ast.AST
	results []Type
}

// Compile compiles an expression, whose result has one of the types, or is an optional value of one. Whether it has is
// known only after the evaluation if it depends on a variable of type Any. The faults of the expression are an *Error.
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
	p := &Program{tree: compiled.NativeRep(), results: results}
	if kind != cel.DynType && !slices.ContainsFunc(results, func(r Type) bool { return kind.IsExactType(r.cel) }) {
		return nil, &Error{[]Fault{{1, 1, p.mustBe(shorten(kind.String()))}}}
	}
	var err error
	if p.program, err = l.env.Program(compiled, cel.CostTracking(costsOf(p.tree)), cel.CostLimit(MaxCost), cel.MemoryLimit(maxMemory),
		cel.CustomDecoratorV2(decorator(p.tree)), cel.MemoryTracking(types.MemoryTrackerSampleInterval(measured)), cel.OptimizeRegex(interpreter.MatchesRegexOptimization)); err != nil {
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

// Eval evaluates the expression. The result is a bool, int64, float64, string or nil, also for an optional value without
// one. cost is what the evaluation took of MaxCost. The error is an *Error with one fault.
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
			return nil, cost, &Error{[]Fault{{1, 1, p.mustBe("an optional value without one")}}}
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
		if p.returns(Text) {
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
		if at := p.tree.SourceInfo().GetStartLocation(e.NodeID()); at != common.NoLocation {
			fault.Line, fault.Column = max(at.Line(), 1), max(at.Column(), 0)+1
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

// plainText matches an expression that is meant as a text: a word or a domain without quotes.
var plainText = regexp.MustCompile(`^[\pL\pN_-]+(\.[\pL\pN_-]+)*$`)

func newError(source string, issues *cel.Issues) *Error {
	e := &Error{}
	for _, issue := range issues.Errors() {
		if len(e.Faults) == atrium.MaxFaults {
			break
		}
		message := shorten(issue.Message)
		if strings.HasPrefix(message, "undeclared reference") && plainText.MatchString(source) {
			message += `: write a fixed text in quotes, such as "text"`
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
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return atrium.Printable(text)
}
