package expression

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// decorator adds the costs of steps that the library takes for free, although they take time: an iteration of a macro such as
// filter, a list or a map that contains others, which can have a size that is exponential in the length of the expression, and
// a key of a map, which is hashed.
func decorator(tree *ast.AST) interpreter.InterpretableDecoratorV2 {
	conditional := map[int64]bool{}
	for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.ComprehensionKind)) {
		if step := e.AsComprehension().LoopStep(); step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
			conditional[step.ID()] = true
		}
	}
	keys := map[int64]bool{}
	for _, function := range []string{operators.Index, operators.OptIndex} {
		for _, e := range ast.MatchDescendants(ast.NavigateAST(tree), ast.FunctionMatcher(function)) {
			keys[e.AsCall().Args()[1].ID()] = true
		}
	}
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i := i.(type) {
		case interpreter.InterpretableConstructor:
			return constructor{i}, nil
		case interpreter.InterpretableAttribute:
			if keys[i.ID()] { // any other key is a literal, or the result of a call, which has a cost
				return key{i}, nil
			}
			if conditional[i.ID()] {
				return iteration{i}, nil
			}
		}
		return i, nil
	}
}

// A step is a call that the library does not know. It gives a step that is free the cost that CallCost returns.
type step string

const (
	construction step = "@construct" // of a list or a map
	selection    step = "@select"    // of an element by a key
)

func (s step) Function() string { return string(s) }
func (step) OverloadID() string { return "" }

// charge adds the cost of the step, which has made or used a value, and returns the value.
func (s step) charge(frame *interpreter.ExecutionFrame, id int64, value ref.Val) ref.Val {
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalZeroArity(frame, id, s, value)
	}
	return value
}

// A key is an attribute whose value selects an element of a map or list.
type key struct{ interpreter.InterpretableV2 }

func (k key) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return selection.charge(frame, k.ID(), k.InterpretableV2.Exec(frame))
}

func (k key) Eval(variables interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(variables, k.Exec)
}

// A constructor makes a list or a map.
type constructor struct {
	interpreter.InterpretableConstructor
}

func (c constructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return construction.charge(frame, c.ID(), c.InterpretableConstructor.Exec(frame))
}

func (c constructor) Eval(variables interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(variables, c.Exec)
}

// An iteration is a step of a macro that is a conditional expression. Other steps are calls, which have a cost.
type iteration struct {
	interpreter.InterpretableAttribute
}

func (i iteration) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if costs := frame.CostTracker(); costs != nil {
		costs.Qualify(i.ID())
	}
	return i.InterpretableAttribute.Exec(frame)
}

func (i iteration) Eval(variables interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(variables, i.Exec)
}
