// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// compileGlob compiles a glob on a whole path to a regular expression, which
// matches in linear time whatever path a process chose. In the glob, * and ?
// match characters but slashes, ** matches any characters, [a-z]
// matches one of some characters, [!a-z] any other but a slash, {a,b} one of several patterns, and \ takes the special
// meaning from the next character.
func compileGlob(glob string) (*regexp.Regexp, error) {
	t := globTranslator{rest: glob}
	if err := t.translate(); err != nil {
		return nil, fmt.Errorf("compiling the glob %q: at byte %d: %w", glob, len(glob)-len(t.rest), err)
	}
	re, err := regexp.Compile(`(?s)\A(?:` + t.out.String() + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("compiling the glob %q: %w", glob, err)
	}
	return re, nil
}

// unclean reports whether a glob without alternatives and escapes has parts that no path of the kernel has.
func unclean(glob string) bool {
	return !strings.ContainsAny(glob, `[{\`) && uncleanParts.MatchString(glob)
}

var uncleanParts = regexp.MustCompile(`//|/\.{0,2}/|/\.{0,2}$`)

// matchesPaths reports whether a compiled glob can match a text that begins with a slash.
func matchesPaths(glob *regexp.Regexp) bool {
	parsed, err := syntax.Parse(glob.String(), syntax.Perl)
	if err != nil {
		return true // it was compiled
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return true
	}
	visited := make([]bool, len(program.Inst))
	var begins func(at uint32) bool // whether a match from an instruction on can begin with a slash
	begins = func(at uint32) bool {
		if visited[at] {
			return false
		}
		visited[at] = true
		switch i := &program.Inst[at]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			return begins(i.Out) || begins(i.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			return begins(i.Out)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			return i.MatchRune('/')
		}
		return false
	}
	return begins(uint32(program.Start))
}

var (
	errGlobClass   = errors.New("[ without ], or nothing between them")
	errGlobRange   = errors.New("a range that ends before it begins")
	errGlobBraces  = errors.New("{ without }")
	errGlobClosing = errors.New("} without {")
	errGlobEscape  = errors.New(`nothing after \`)
	errGlobText    = errors.New("not UTF-8")
)

// globTranslator turns a glob into the syntax of package regexp.
type globTranslator struct {
	rest  string
	out   strings.Builder
	depth int // of braces
}

func (t *globTranslator) translate() error {
	for t.rest != "" {
		if err := t.term(); err != nil {
			return err
		}
	}
	if t.depth > 0 {
		return errGlobBraces
	}
	return nil
}

func (t *globTranslator) term() error {
	switch c := t.rest[0]; {
	case t.take("**"):
		t.out.WriteString(`.*`)
	case t.take("*"):
		t.out.WriteString(`[^/]*`)
	case t.take("?"):
		t.out.WriteString(`[^/]`)
	case t.take("["):
		return t.class()
	case t.take("{"):
		t.depth++
		t.out.WriteString(`(?:`)
	case c == '}':
		if t.depth == 0 {
			return errGlobClosing
		}
		t.take("}")
		t.depth--
		t.out.WriteByte(')')
	case c == ',' && t.depth > 0:
		t.take(",")
		t.out.WriteByte('|')
	default:
		r, err := t.character()
		t.out.WriteString(regexp.QuoteMeta(string(r)))
		return err
	}
	return nil
}

// class translates what follows an opening bracket.
func (t *globTranslator) class() error {
	open := `[`
	if t.take("!") {
		open = `[^/`
	}
	t.out.WriteString(open)
	for n := 0; ; n++ {
		if t.rest == "" || n == 0 && t.rest[0] == ']' {
			return errGlobClass
		}
		if t.take("]") {
			t.out.WriteByte(']')
			return nil
		}
		if err := t.classRange(); err != nil {
			return err
		}
	}
}

// classRange translates one character of a class, or two with a dash between.
func (t *globTranslator) classRange() error {
	low, err := t.character()
	if err != nil {
		return err
	}
	high := low
	if len(t.rest) > 1 && t.rest[0] == '-' && t.rest[1] != ']' {
		t.take("-")
		if high, err = t.character(); err != nil {
			return err
		}
	}
	if high < low {
		return errGlobRange
	}
	fmt.Fprintf(&t.out, `\x{%x}-\x{%x}`, low, high)
	return nil
}

// character takes one character that stands for itself.
func (t *globTranslator) character() (rune, error) {
	if t.take(`\`) && t.rest == "" {
		return 0, errGlobEscape
	}
	r, size := utf8.DecodeRuneInString(t.rest)
	if r == utf8.RuneError && size <= 1 {
		return 0, errGlobText
	}
	t.rest = t.rest[size:]
	return r, nil
}

func (t *globTranslator) take(prefix string) bool {
	rest, ok := strings.CutPrefix(t.rest, prefix)
	t.rest = rest
	return ok
}
