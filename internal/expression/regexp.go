package expression

import (
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// emptyGroup is compiled before each regular expression. For one that begins with ^, package regexp would otherwise copy a class for
// each repetition: ^\pL{0,60}$ would take 1 MB instead of 12 KB.
const (
	emptyGroup      = "()"
	emptyGroupInsts = 3 // of emptyGroup
)

// regexpOptimization compiles the regular expressions of the function matches once, as interpreter.MatchesRegexOptimization does, after emptyGroup.
var regexpOptimization = &interpreter.RegexOptimization{
	Function:   overloads.Matches,
	RegexIndex: 1,
	Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil { // such as *, which would be valid after a group
			return nil, err
		}
		compiled, err := regexp.Compile(emptyGroup + pattern)
		if err != nil {
			return nil, err
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			text, ok := args[0].(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(args[0])
			}
			return types.Bool(compiled.MatchString(string(text)))
		}), nil
	},
}

// regexpSize returns the number of instructions of a regular expression, without those of emptyGroup, and an estimate of the bytes
// that both occupy.
func regexpSize(pattern string) (size uint64, memory int) {
	parsed, err := syntax.Parse(emptyGroup+pattern, syntax.Perl)
	if err != nil {
		return maxRegexpInsts, 0
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return maxRegexpInsts, 0
	}
	memory = 2<<10 + 16*len(pattern) + 40*cap(compiled.Inst)
	counted := map[*rune]bool{} // repetitions share the ranges of a class
	for i := range compiled.Inst {
		if ranges := compiled.Inst[i].Rune; len(ranges) > 1 && !counted[&ranges[0]] {
			counted[&ranges[0]] = true
			memory += 5 * cap(ranges)
		}
	}
	return uint64(len(compiled.Inst) - emptyGroupInsts), memory
}
