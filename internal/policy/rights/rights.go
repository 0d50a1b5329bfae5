// Package rights is who may do what in a swarm, as operators have said it in sentences that all SNs share. A swarm without sentences
// has none: there each role may do what the API lets it. It is pure.
package rights

import (
	"fmt"
	"strings"

	"github.com/swarmd/swarmd/internal/policy/sentence"
)

// Bounds of the rights of a swarm.
const (
	MaxSentences = 256
	MaxBytes     = 32 << 10 // of all sentences together
)

// Resources. All of them together are sentence.AllResources.
const (
	Tasks     = "tasks" // with taskrunners and assignments
	Jobs      = "jobs"
	Contracts = "contracts"
	Nodes     = "nodes"
	Models    = "models"
	Logs      = "logs" // the ledger too
	Rights    = "rights"
)

// Resources returns what sentences may be about.
func Resources() []string {
	return []string{Tasks, Jobs, Contracts, Nodes, Models, Logs, Rights, sentence.AllResources}
}

// The facts that conditions may name.
const (
	TaskName       = "task.name"
	TaskrunnerName = "taskrunner.name"
	JobName        = "job.name"
	ContractName   = "contract.name" // of a model too
	NodeName       = "node.name"
)

// NameOf returns the fact that the name of a thing is, such as contract.name for a model's; "": it has none.
func NameOf(resource string) string {
	return map[string]string{Tasks: TaskName, Jobs: JobName, Contracts: ContractName, Models: ContractName, Nodes: NodeName, Logs: NodeName}[resource]
}

func vocabulary() sentence.Vocabulary {
	return sentence.Vocabulary{
		Verbs: sentence.Verbs(), Resources: Resources(), Facts: []string{TaskName, TaskrunnerName, JobName, ContractName, NodeName},
	}
}

// CheckAction says what is wrong with a verb and a resource that somebody asks about.
func CheckAction(verb, resource string) error {
	s, err := sentence.Parse("Allow spiffe://x/** to "+verb+" "+resource, vocabulary())
	if err == nil && (s.Verb != verb || s.Resource != resource) {
		err = fmt.Errorf("%.40q and %.40q are no verb and resource", verb, resource)
	}
	return err
}

// Canonical returns sentences as they are kept: each as it is written when it was read, without blanks or capitals of its own. An error
// names the sentence by its number, from 1.
func Canonical(texts []string) ([]string, error) {
	if len(texts) > MaxSentences {
		return nil, fmt.Errorf("%d sentences, at most %d", len(texts), MaxSentences)
	}
	all, bytes := make([]string, 0, len(texts)), 0
	for i, text := range texts {
		s, err := sentence.Parse(text, vocabulary())
		if err != nil {
			return nil, fmt.Errorf("sentence %d: %w", i+1, err)
		}
		all = append(all, s.String())
		bytes += len(all[i])
	}
	if bytes > MaxBytes {
		return nil, fmt.Errorf("the sentences have %d bytes together, at most %d", bytes, MaxBytes)
	}
	return all, nil
}

// Set are sentences that can be judged by. It does not change.
type Set struct {
	sentences []sentence.Sentence
	texts     []string
}

// NewSet reads sentences. Those that this version does not understand allow nothing.
func NewSet(texts []string) *Set {
	s := &Set{texts: texts, sentences: make([]sentence.Sentence, len(texts))}
	for i, text := range texts {
		if one, err := sentence.Parse(text, vocabulary()); err == nil {
			s.sentences[i] = one
		}
	}
	return s
}

// Judgement says whether sentences allow an action, and by which one.
type Judgement struct {
	Allowed  bool
	Number   int    // of the sentence that allows it, or of the one that came nearest, from 1; 0: there is none
	Sentence string // the same in words
	Why      string // why it does not allow it
}

// Judge says whether a sentence allows an action.
func (s *Set) Judge(a sentence.Action) (j Judgement) {
	nearest := -1
	for i, one := range s.sentences {
		fit := one.Judge(a)
		if fit.Allows {
			return Judgement{Allowed: true, Number: i + 1, Sentence: s.texts[i]}
		}
		if fit.Near > nearest && one.Verb != "" {
			nearest, j = fit.Near, Judgement{Number: i + 1, Sentence: s.texts[i], Why: fit.Why}
		}
	}
	return j
}

// ParseText reads sentences from text: each begins in a new line, and goes on in those after it that are indented. Lines that begin
// with # are comments. An error has name and line.
func ParseText(name, text string) (all []string, err error) {
	var begun []string // lines of the sentence that is being read
	from := 0
	take := func() {
		if len(begun) == 0 || err != nil {
			return
		}
		one, wrong := sentence.Parse(strings.Join(begun, "\n"), vocabulary())
		if wrong != nil {
			err = fmt.Errorf("%s:%d: %w", name, from, wrong)
			return
		}
		all, begun = append(all, one.String()), nil
	}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case len(begun) > 0 && (line[0] == ' ' || line[0] == '\t'):
			begun = append(begun, trimmed)
		default:
			take()
			begun, from = []string{trimmed}, number
		}
	}
	take()
	if err != nil {
		return nil, err
	}
	return all, nil
}
