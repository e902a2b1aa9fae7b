package expression

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// costs are the costs of calls. CEL's default cost model charges most functions a constant, so searching a list of thousands could
// cost as much as an addition. Here, a call costs one, and one for each unit of its arguments and its result (see maxValueUnits). A
// regular expression can compare each byte with each of its instructions.
type costs struct {
	instructions map[string]uint64 // by regular expression: compiling one for each call would cost more than the call
}

// costsOf returns the costs of the calls in a tree, and an estimate of the bytes that its regular expressions occupy.
func costsOf(tree *ast.AST) (c costs, memory int) {
	c = costs{map[string]uint64{}}
	for _, call := range ast.MatchDescendants(ast.NavigateAST(tree), ast.FunctionMatcher("matches")) {
		for _, arg := range call.AsCall().Args() {
			if pattern, ok := stringLiteral(arg); ok {
				instructions, bytes := regexpSize(pattern)
				c.instructions[pattern] = instructions
				memory += bytes
			}
		}
	}
	return c, memory
}

func (c costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if function == string(construction) {
		cost := unitsOf(result) / 10
		if cost > maxValueUnits/10 {
			cost = MaxCost + 1 // the limit of memory measures only some values in macros
		}
		return &cost
	}
	if function == string(selection) {
		cost := unitsOf(result)
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
	if function == overloads.TypeConvertDouble && len(args) == 1 {
		if text, ok := args[0].(types.String); ok && !convertsFast(decimal(string(text))) {
			cost += slowDouble
		}
	}
	return &cost
}

// slowDouble is the cost of converting a string to a double if that takes long.
const slowDouble = 50

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
	return maxRegexpInsts
}
