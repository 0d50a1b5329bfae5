package sentence

import (
	"fmt"
	"slices"
	"strings"
)

// Action is what somebody wants to do.
type Action struct {
	Subject  string // SPIFFE ID
	Verb     string
	Resource string
	Facts    map[string]string // what is known of it; absent and empty ones are not known
	// More are further values of facts that have several. A comparison holds if it does with one of them, and "differs" only with all.
	More map[string][]string
	// Open are facts that may turn out to be anything: each comparison with one holds.
	Open []string
}

// Fit says how a sentence fits an action.
type Fit struct {
	Allows bool
	// Near is the greater the more of a sentence fits that does not allow it.
	Near int
	// Why says in words what does not fit; empty if it allows.
	Why string
}

// How near a sentence came.
const (
	otherSubject = iota
	otherAction
	otherFacts
)

// Judge says whether a sentence allows an action. A comparison with a fact that is not known never holds, nor does "differs".
func (s Sentence) Judge(a Action) Fit {
	switch {
	case !s.Subjects.Match(a.Subject):
		return Fit{Near: otherSubject, Why: fmt.Sprintf("it is for %s, not for %s", s.Subjects, a.Subject)}
	case s.Resource != a.Resource && s.Resource != AllResources:
		return Fit{Near: otherAction, Why: fmt.Sprintf("it is about %s, not about %s", s.Resource, a.Resource)}
	case !Covers(s.Verb, a.Verb):
		return Fit{Near: otherAction, Why: fmt.Sprintf("%s does not cover %s", s.Verb, a.Verb)}
	case s.Where == nil:
		return Fit{Allows: true}
	}
	if why := s.Where.fails(a); why != "" {
		return Fit{Near: otherFacts, Why: why}
	}
	return Fit{Allows: true}
}

// fails says why a condition does not hold; "" if it does.
func (c Condition) fails(a Action) string {
	switch c.Op {
	case All:
		for _, part := range c.Parts {
			if why := part.fails(a); why != "" {
				return why
			}
		}
		return ""
	case Any:
		whys := make([]string, len(c.Parts))
		for i, part := range c.Parts {
			if whys[i] = part.fails(a); whys[i] == "" {
				return ""
			}
		}
		return strings.Join(whys, ", and ")
	case Equal, Differs, In:
		if slices.Contains(a.Open, c.Fact) {
			return ""
		}
		return c.compare(a.values(c.Fact))
	}
	return "its condition is of an unknown kind"
}

// values returns what is known of a fact.
func (a Action) values(fact string) []string {
	if is := a.Facts[fact]; is != "" {
		return append([]string{is}, a.More[fact]...)
	}
	return nil
}

func (c Condition) compare(values []string) string {
	has := slices.ContainsFunc(values, func(is string) bool { return slices.Contains(c.Values, is) })
	switch {
	case len(values) == 0:
		return c.Fact + " is not known"
	case has != (c.Op == Differs):
		return ""
	case c.Op == Differs:
		return fmt.Sprintf("%s is %s", c.Fact, orList(values))
	case len(c.Values) == 1:
		return fmt.Sprintf("%s is %s, not %s", c.Fact, orList(values), Quote(c.Values[0]))
	}
	return fmt.Sprintf("%s is %s, which is not in its list", c.Fact, orList(values))
}

// maxListed is how many values of a fact are told.
const maxListed = 3

func orList(values []string) string {
	var told []string
	for _, v := range values[:min(len(values), maxListed)] {
		told = append(told, Quote(v))
	}
	if more := len(values) - maxListed; more > 0 {
		return fmt.Sprintf("%s or %d others", strings.Join(told, " or "), more)
	}
	return strings.Join(told, " or ")
}
