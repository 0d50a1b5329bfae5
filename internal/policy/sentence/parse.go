package sentence

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/suggest"
)

// form is what an error says a sentence looks like.
const form = "Allow SPIFFE-ID-PATTERN to VERB RESOURCE where all {FACT='VALUE', …}"

// Parse reads a sentence. An error says in one line which word is wrong, and which one was probably meant.
func Parse(text string, v Vocabulary) (Sentence, error) {
	tokens, err := lex(text)
	if err != nil {
		return Sentence{}, err
	}
	p := parser{tokens: tokens, words: v}
	s, err := p.sentence()
	if err != nil {
		return Sentence{}, err
	}
	return s, nil
}

// parser reads tokens from the first one on.
type parser struct {
	tokens      []token
	words       Vocabulary
	comparisons int
	values      int
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.kind != end {
		p.tokens = p.tokens[1:]
	}
	return t
}

// takes takes the next token if it is of this kind.
func (p *parser) takes(k kind) bool {
	if p.peek().kind != k {
		return false
	}
	p.take()
	return true
}

// says takes the next token if it is this word, in capitals or not.
func (p *parser) says(w string) bool {
	if t := p.peek(); t.kind != word || !strings.EqualFold(t.text, w) {
		return false
	}
	p.take()
	return true
}

func (p *parser) sentence() (s Sentence, err error) {
	if !p.says("allow") {
		return s, fmt.Errorf("it begins with %s: want %s", p.peek().named(), form)
	}
	if s.Subjects, err = p.subjects(); err != nil {
		return s, err
	}
	if !p.says("to") {
		return s, fmt.Errorf("%s where \"to\" is to stand: want %s", p.peek().named(), form)
	}
	if s.Verb, err = p.oneOf("verb", p.words.Verbs); err != nil {
		return s, err
	}
	if s.Resource, err = p.oneOf("resource", p.words.Resources); err != nil {
		return s, err
	}
	switch t := p.take(); {
	case t.kind == end:
		return s, nil
	case t.kind == word && strings.EqualFold(t.text, "in"):
		return s, errors.New(`"in" names a compartment, which a swarm has none of: say it after where`)
	case t.kind != word || !strings.EqualFold(t.text, "where"):
		return s, fmt.Errorf("%s where \"where\" is to stand, or the end", t.named())
	}
	where, err := p.condition(0)
	if err != nil {
		return s, err
	}
	if t := p.take(); t.kind != end {
		return s, fmt.Errorf("%s after the condition: several go into all {…, …} or any {…, …}", t.named())
	}
	s.Where = &where
	return s, nil
}

func (p *parser) subjects() (list pattern.List, err error) {
	for {
		t := p.take()
		if t.kind != word {
			return nil, fmt.Errorf("%s where a SPIFFE ID pattern is to stand, such as spiffe://example.org/swarm/swci/*", t.named())
		}
		if !strings.Contains(t.text, "://") {
			return nil, fmt.Errorf("%s is no subject: subjects are SPIFFE ID patterns, such as spiffe://example.org/swarm/swci/*", t.named())
		}
		one, err := pattern.Parse(t.text)
		if err != nil {
			return nil, err
		}
		if list = append(list, one); len(list) > pattern.MaxList {
			return nil, fmt.Errorf("more than %d subjects", pattern.MaxList)
		}
		if !p.takes(',') {
			return list, nil
		}
	}
}

// oneOf takes a word of a list. It may be in capitals.
func (p *parser) oneOf(what string, words []string) (string, error) {
	t := p.take()
	if w := strings.ToLower(t.text); t.kind == word && slices.Contains(words, w) {
		return w, nil
	}
	return "", fmt.Errorf("%s is no %s: %s", t.named(), what, meant(t, words))
}

// meant says which word was probably meant, or which there are.
func meant(t token, words []string) string {
	if near := suggest.Word(t.text, words); t.kind == word && near != "" {
		return "did you mean " + near + "?"
	}
	return "want " + strings.Join(words, ", ")
}

func (p *parser) condition(depth int) (c Condition, err error) {
	if depth > maxDepth {
		return c, fmt.Errorf("more than %d of all and any in one another", maxDepth)
	}
	if next := p.tokens[min(1, len(p.tokens)-1)]; next.kind == '{' {
		switch {
		case p.says("all"):
			c.Op = All
		case p.says("any"):
			c.Op = Any
		default:
			return c, fmt.Errorf("%s before {: want all or any", p.peek().named())
		}
		p.take()
		c.Parts, err = p.parts(depth + 1)
		return c, err
	}
	return p.comparison()
}

// parts reads conditions up to a closing brace.
func (p *parser) parts(depth int) (parts []Condition, err error) {
	for {
		part, err := p.condition(depth)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		switch t := p.take(); t.kind {
		case '}':
			return parts, nil
		case ',':
		default:
			return nil, fmt.Errorf("%s where , or } is to stand", t.named())
		}
	}
}

func (p *parser) comparison() (c Condition, err error) {
	if p.comparisons++; p.comparisons > maxComparisons {
		return c, fmt.Errorf("more than %d comparisons", maxComparisons)
	}
	t := p.take()
	if t.kind != word || !slices.Contains(p.words.Facts, t.text) {
		return c, fmt.Errorf("%s is no fact that a condition may name: %s", t.named(), meant(t, p.words.Facts))
	}
	c.Fact = t.text
	switch op := p.peek(); {
	case p.takes('='):
		c.Op = Equal
	case p.takes(differs):
		c.Op = Differs
	case p.says("in"):
		c.Op = In
		c.Values, err = p.list(c.Fact)
		return c, err
	default:
		return c, fmt.Errorf("%s after %s: want =, != or in (…)", op.named(), c.Fact)
	}
	v, err := p.value(c.Fact)
	c.Values = []string{v}
	return c, err
}

// list reads the values of a fact in parentheses.
func (p *parser) list(fact string) (values []string, err error) {
	if !p.takes('(') {
		return nil, fmt.Errorf("%s after in: want ('VALUE', 'VALUE')", p.peek().named())
	}
	for {
		v, err := p.value(fact)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
		switch t := p.take(); t.kind {
		case ')':
			return values, nil
		case ',':
		default:
			return nil, fmt.Errorf("%s where , or ) is to stand", t.named())
		}
	}
}

// value reads what a fact is compared with, in quotes or not.
func (p *parser) value(fact string) (string, error) {
	t := p.take()
	if t.kind != word && t.kind != quoted {
		return "", fmt.Errorf("%s where a value of %s is to stand", t.named(), fact)
	}
	if p.values++; p.values > maxValues {
		return "", fmt.Errorf("more than %d values", maxValues)
	}
	if len(t.text) > MaxValue {
		return "", fmt.Errorf("the value %.40q… has %d bytes, at most %d", t.text, len(t.text), MaxValue)
	}
	if p.words.Check != nil {
		if err := p.words.Check(fact, t.text); err != nil {
			return "", err
		}
	}
	return t.text, nil
}
