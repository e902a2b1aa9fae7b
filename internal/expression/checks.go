package expression

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// maxSeparator is the maximum number of bytes between the elements that join puts together.
const maxSeparator = 16

// checkCalls reports the calls whose cost has no bound. It comes before the check of types, which compiles regular
// expressions.
func checkCalls(tree *ast.AST, issues *cel.Issues) {
	root := ast.NavigateAST(tree)
	for _, name := range unboundedFunctions {
		for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher(name)) {
			issues.ReportErrorAtID(call.ID(), "the function %s is not available", name)
		}
	}
	for _, call := range ast.MatchDescendants(root, ast.FunctionMatcher("join")) {
		for _, arg := range call.AsCall().Args() {
			if separator, ok := stringLiteral(arg); !ok || len(separator) > maxSeparator {
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

// checkOptionals reports optional elements of lists and maps whose values may not be optional, after type checking; otherwise
// each evaluation error would contain the whole value.
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
		if i == maxMatchesCalls {
			issues.ReportErrorAtID(call.ID(), "the function matches can be called %d times at most", maxMatchesCalls)
			break
		}
		args := call.AsCall().Args()
		if len(args) == 0 {
			continue
		}
		pattern, ok := stringLiteral(args[len(args)-1])
		if !ok {
			issues.ReportErrorAtID(call.ID(), "the regular expression of matches must be a literal")
			continue
		}
		if tables += strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`); tables > maxUnicodeClasses {
			issues.ReportErrorAtID(call.ID(), "regular expressions can have %d classes such as \\pL at most", maxUnicodeClasses)
			break
		}
		if ranges += foldedRanges(pattern); ranges > maxFoldedRanges {
			issues.ReportErrorAtID(call.ID(), "regular expressions that ignore case can have %d ranges of characters beyond ASCII at most", maxFoldedRanges)
			break
		}
	}
}

// ignoreCaseFlag matches flags of a regular expression that may contain i.
var ignoreCaseFlag = regexp.MustCompile(`\(\?[imsU-]*i`)

// foldedRanges returns how many ranges of characters in a regular expression may have to be folded character by
// character: those that end beyond ASCII, if a flag ignores case. It may overcount.
func foldedRanges(pattern string) (n int) {
	if !ignoreCaseFlag.MatchString(pattern) {
		return 0
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
		if computed++; computed > maxComputedKeyMaps {
			issues.ReportErrorAtID(m.ID(), "at most %d maps can have keys that are not literals", maxComputedKeyMaps)
			return
		}
	}
}

// stringLiteral returns the value of an expression that is a string literal.
func stringLiteral(e ast.Expr) (value string, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	literal, ok := e.AsLiteral().(types.String)
	return string(literal), ok
}
