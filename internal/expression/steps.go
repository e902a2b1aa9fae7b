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

// A key is an attribute whose value selects an element of a map or list.
type key struct{ interpreter.InterpretableV2 }

func (k key) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := k.InterpretableV2.Exec(frame)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalZeroArity(frame, k.ID(), selection{}, value)
	}
	return value
}

func (k key) Eval(variables interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(variables, k.Exec)
}

// A selection is the call whose cost is that of a key.
type selection struct{}

func (selection) Function() string   { return "@select" }
func (selection) OverloadID() string { return "" }

// A constructor makes a list or a map.
type constructor struct {
	interpreter.InterpretableConstructor
}

func (c constructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.InterpretableConstructor.Exec(frame)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalZeroArity(frame, c.ID(), construction{}, value)
	}
	return value
}

func (c constructor) Eval(variables interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(variables, c.Exec)
}

// A construction is the call whose cost is that of a constructor.
type construction struct{}

func (construction) Function() string   { return "@construct" }
func (construction) OverloadID() string { return "" }

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
