// Package sentence reads and judges sentences that say who may do what: Allow SUBJECT to VERB RESOURCE where CONDITION. Owners of
// hosts write them in a policy, operators for the rights in a swarm; which verbs, resources and facts there are, a Vocabulary says.
// It is pure: the replicated state decides by it, and so does a host by itself.
package sentence

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/pattern"
)

// Bounds of a sentence.
const (
	MaxBytes       = 4 << 10 // of its text
	MaxValue       = 512     // bytes of a value
	maxComparisons = 64
	maxValues      = 256 // in all lists
	maxDepth       = 4   // of all and any in one another
)

// AllResources is the resource that stands for every other one.
const AllResources = "all-resources"

// Verbs, of which each covers those before it.
const (
	Inspect = "inspect"
	Read    = "read"
	Use     = "use"
	Manage  = "manage"
)

// Verbs returns all verbs, the weakest first.
func Verbs() []string { return []string{Inspect, Read, Use, Manage} }

// Covers reports whether who may do the first verb may do the second one too.
func Covers(has, wanted string) bool {
	i, j := slices.Index(Verbs(), has), slices.Index(Verbs(), wanted)
	return i >= j && j >= 0
}

// Vocabulary has the words that sentences of one kind may use.
type Vocabulary struct {
	Verbs     []string
	Resources []string
	Facts     []string // what conditions may name
	// Check says what is wrong with a value that a fact is compared with; nil: any will do.
	Check func(fact, value string) error
}

// Sentence allows its subjects to do what its verb covers to a resource, where its condition holds. The zero value allows nothing.
type Sentence struct {
	Subjects pattern.List
	Verb     string
	Resource string
	Where    *Condition // nil: always
}

// Op says how a condition is judged.
type Op int

// How conditions are judged.
const (
	All     Op = iota // each of its parts holds
	Any               // one of its parts holds
	Equal             // the fact has the value
	Differs           // the fact is known and has another value
	In                // the fact has one of the values
)

// Condition is a comparison of a fact, or several conditions.
type Condition struct {
	Op     Op
	Parts  []Condition // of All and Any
	Fact   string      // of the others
	Values []string    // one, or several of In
}

// String returns the text that Parse takes.
func (s Sentence) String() string {
	var b strings.Builder
	b.WriteString("Allow " + s.Subjects.String() + " to " + s.Verb + " " + s.Resource)
	if s.Where != nil {
		b.WriteString(" where ")
		s.Where.write(&b)
	}
	return b.String()
}

func (c Condition) write(b *strings.Builder) {
	switch c.Op {
	case All, Any:
		b.WriteString(map[Op]string{All: "all {", Any: "any {"}[c.Op])
		for i, part := range c.Parts {
			if i > 0 {
				b.WriteString(", ")
			}
			part.write(b)
		}
		b.WriteString("}")
	case Equal:
		b.WriteString(c.Fact + "=" + Quote(c.Values[0]))
	case Differs:
		b.WriteString(c.Fact + "!=" + Quote(c.Values[0]))
	case In:
		quoted := make([]string, len(c.Values))
		for i, v := range c.Values {
			quoted[i] = Quote(v)
		}
		b.WriteString(c.Fact + " in (" + strings.Join(quoted, ", ") + ")")
	}
}

// Quote returns a value as sentences have it.
func Quote(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
