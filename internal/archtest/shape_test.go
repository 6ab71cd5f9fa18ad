package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment: tell in a few lines how it works, in doc.go or its main file", p.ImportPath)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			checkSizes(t, filepath.Join(p.Dir, name), filepath.Join(p.name(), name))
		}
	}
}

func checkSizes(t *testing.T, path, shown string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	if ast.IsGenerated(file) {
		return
	}
	if lines := fset.File(file.FileStart).LineCount(); lines > maxFileLines {
		t.Errorf("%s has %d lines, more than %d: it holds more than one thing", shown, lines, maxFileLines)
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; lines > maxFunctionLines {
			t.Errorf("%s: %s has %d lines, more than %d: name its steps", shown, fn.Name.Name, lines, maxFunctionLines)
		}
	}
}
