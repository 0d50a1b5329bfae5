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
	if why := s.Where.fails(a.Facts); why != "" {
		return Fit{Near: otherFacts, Why: why}
	}
	return Fit{Allows: true}
}

// fails says why a condition does not hold; "" if it does.
func (c Condition) fails(facts map[string]string) string {
	switch c.Op {
	case All:
		for _, part := range c.Parts {
			if why := part.fails(facts); why != "" {
				return why
			}
		}
		return ""
	case Any:
		whys := make([]string, len(c.Parts))
		for i, part := range c.Parts {
			if whys[i] = part.fails(facts); whys[i] == "" {
				return ""
			}
		}
		return strings.Join(whys, ", and ")
	case Equal, Differs, In:
		return c.compare(facts[c.Fact])
	}
	return "its condition is of an unknown kind"
}

func (c Condition) compare(is string) string {
	has := slices.Contains(c.Values, is)
	switch {
	case is == "":
		return c.Fact + " is not known"
	case has != (c.Op == Differs):
		return ""
	case c.Op == Differs:
		return fmt.Sprintf("%s is %s", c.Fact, Quote(is))
	case len(c.Values) == 1:
		return fmt.Sprintf("%s is %s, not %s", c.Fact, Quote(is), Quote(c.Values[0]))
	}
	return fmt.Sprintf("%s is %s, which is not in its list", c.Fact, Quote(is))
}
