package provider_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
)

// comparing are the functions of the standard library that compare texts or bytes, and stop at the first difference.
var comparing = []string{
	"bytes.Equal", "bytes.Compare", "bytes.EqualFold", "bytes.HasPrefix", "bytes.HasSuffix", "bytes.Contains", "bytes.Index", "strings.Compare", "strings.EqualFold",
	"slices.Equal", "slices.Compare", "slices.Contains", "slices.Index", "reflect.DeepEqual", "cmp.Compare", "maps.Equal",
}

// TestSecretsAreComparedInConstantTime refuses comparisons of two texts, byte slices or arrays of which neither is a
// constant. Only hmac.Equal and subtle.ConstantTimeCompare may compare what a sender has computed.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0) //nolint:staticcheck // the package has no build tags
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, f := range packages["provider"].Files {
		files = append(files, f)
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(root)) // -trimpath removes it
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: importer.ForCompiler(set, "source", nil)}).Check("atrium/internal/provider", set, files, &info); err != nil {
		t.Fatal(err)
	}
	variable := func(e ast.Expr) bool {
		tv := info.Types[e]
		if tv.Value != nil || tv.IsNil() {
			return false
		}
		switch u := tv.Type.Underlying().(type) {
		case *types.Basic:
			return u.Info()&types.IsString != 0
		case *types.Slice, *types.Array, *types.Interface, *types.Struct:
			return true
		}
		return false
	}
	// Names of headers and the like, which are no secrets.
	allowed := map[string]bool{"h.Name != name": true, "h.Name == name": true, "providers[i].Name == name": true, "value == text": true, "strings.ToLower(given) == scheme": true}
	compared := 0
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				text := types.ExprString(n)
				if (n.Op == token.EQL || n.Op == token.NEQ) && variable(n.X) && variable(n.Y) && !allowed[text] {
					t.Errorf("%s: %s is not a comparison in constant time", set.Position(n.Pos()), text)
				}
			case *ast.SwitchStmt:
				for _, s := range n.Body.List {
					for _, e := range s.(*ast.CaseClause).List {
						if n.Tag != nil && variable(n.Tag) && variable(e) {
							t.Errorf("%s: a case that is not a constant compares with it", set.Position(e.Pos()))
						}
					}
				}
			case *ast.SelectorExpr:
				object := info.Uses[n.Sel]
				if object == nil || object.Pkg() == nil {
					return true
				}
				name := object.Pkg().Path() + "." + object.Name()
				if name == "crypto/hmac.Equal" || name == "crypto/subtle.ConstantTimeCompare" {
					compared++
				}
				for _, forbidden := range comparing {
					if name == forbidden && !constantCall(f, n, variable) {
						t.Errorf("%s: %s does not compare in constant time", set.Position(n.Pos()), name)
					}
				}
			}
			return true
		})
	}
	if compared < 3 {
		t.Errorf("%d comparisons in constant time were found", compared)
	}
}

// constantCall reports whether a function is called with a constant as its last argument.
func constantCall(f *ast.File, function ast.Expr, variable func(ast.Expr) bool) (constant bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Fun == function {
			constant = !variable(call.Args[len(call.Args)-1])
		}
		return true
	})
	return constant
}
