package route

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Limits of a user's regular expression. A text of 1024 bytes, which is what the
// Gateway API takes, can still stand for a million instructions ("a{1000}"
// nested), each of which may cost time for every byte of a path.
const (
	maxRegexText         = 1024
	maxRegexInstructions = 10000
)

// compileRegex compiles an RE2 expression that has to match the whole value.
// Bytes that are not UTF-8 count as one character each, which "." and negated
// classes match: they do not make a match fail by being there.
func compileRegex(expr string) (*regexp.Regexp, error) {
	if len(expr) > maxRegexText {
		return nil, fmt.Errorf("the regular expression has %d bytes, more than %d", len(expr), maxRegexText)
	}
	// Alone first: "a)|(b" becomes valid only by what is put around it.
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxRegexInstructions {
		return nil, fmt.Errorf("the regular expression %.40q compiles to %d instructions, more than %d: shorten its repetitions", expr, len(prog.Inst), maxRegexInstructions)
	}
	return regexp.Compile(`\A(?:` + expr + `)\z`)
}
