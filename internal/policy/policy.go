// Package policy is what the owner of a host says about tasks: which ones its host carries out, after whom it asks first, and how
// much they may take. An owner writes it as sentences in a file; Decide judges one task by them. It is pure.
package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/policy/sentence"
)

// Null and Ask are what a host can be given instead of a file.
const (
	Null = "null" // no policy
	Ask  = "ask"  // somebody is asked about each task
)

// Policy is what an owner of a host has said. It does not change. The zero value refuses everything.
type Policy struct {
	kind      kind
	file      string
	rules     []rule
	limits    limits
	folders   map[string]folder // by name
	targets   map[string]string // likewise: REMOTE:PATH
	approvers pattern.List
	named     bool // the owner named the approvers
	logs      pattern.List
	logsAt    Source // where the policy says to whom logs may go; of one that does not say it the zero value
	// To whom ports of members of jobs are forwarded, and where the policy says so, as of logs.
	forwards   pattern.List
	forwardsAt Source
}

// kind is where a policy comes from.
type kind int

const (
	written   kind = iota // in a file
	none                  // no policy: Null
	askAlways             // Ask
)

// rule is a sentence, where it stands, and whether somebody is asked first.
type rule struct {
	sentence.Sentence

	at  Source
	ask bool
}

// Source is the part of a policy that decided.
type Source struct {
	File string // empty: the policy is in no file
	Line int    // from 1
	Text string // the sentence or the limit, as it is understood
}

// String returns file, line and text.
func (s Source) String() string {
	if s.File == "" {
		return s.Text
	}
	return fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Text)
}

// None reports whether there is no policy: what images do is carried out, without a question.
func (p *Policy) None() bool { return p.kind == none }

// Unwritten returns the policy Null or Ask of a host of a trust domain.
func Unwritten(name, domain string) (*Policy, error) {
	p := &Policy{approvers: operators(domain, "*"), logs: operators(domain, "**")}
	switch name {
	case Null:
		p.kind = none
	case Ask:
		p.kind = askAlways
	default:
		return nil, fmt.Errorf("policy %.80q: want %s, %s or a file", name, Null, Ask)
	}
	return p, nil
}

// operators are those of a trust domain: ** is all of them, * those with an entry of their own.
func operators(domain, last string) pattern.List {
	p, err := pattern.Parse("spiffe://" + domain + sharedOperator + "/" + last)
	if err != nil {
		return nil // no trust domain, no operators
	}
	return pattern.List{p}
}

// sharedOperator is the path of the SPIFFE ID that operators without an entry of their own share.
const sharedOperator = "/swarm/swci"

// String says what the policy does, in a line for the log of a host that starts.
func (p *Policy) String() string {
	switch p.kind {
	case none:
		return "no policy: this host carries out every task for container images that an operator of the swarm assigns to it. It binds no " +
			"path of this host that a task names, opens no isolation, and runs no processes outside containers. To be asked first: --policy ask"
	case askAlways:
		return "asks about every task: nothing runs before it is approved by " + p.approverNames()
	case written:
	}
	asks, secrets := 0, 0
	for _, r := range p.rules {
		switch {
		case r.Resource == secretResource:
			secrets++
		case r.ask:
			asks++
		}
	}
	allows := len(p.rules) - secrets
	words := fmt.Sprintf("%s: allows tasks by %s, %d of them after an approval", p.file, count(allows, "sentence"), asks)
	if allows == 0 {
		words = p.file + ": refuses every task, as it has no sentence about the host"
	}
	if secrets > 0 {
		words += ", and secrets by " + count(secrets, "sentence")
	}
	if asks > 0 {
		words += " by " + p.approverNames()
	}
	return words
}

// approverNames says who may approve.
func (p *Policy) approverNames() string {
	switch {
	case len(p.approvers) > 0:
		return p.approvers.String()
	case p.named:
		return "nobody"
	}
	return "operators of this host's own trust domain"
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Approves returns why somebody may not approve what somebody asks for; nil if it may. Both are SPIFFE IDs that the host has verified.
func (p *Policy) Approves(approver, submitter string) error {
	switch {
	case approver == "" || approver == submitter:
		return fmt.Errorf("%s asks for it: another SPIFFE ID is to approve it", submitter)
	case !p.approvers.Match(approver):
		return fmt.Errorf("%s is no approver of this host: these are %s; %s", approver, p.approverNames(), p.addTo("approvers"))
	case shared(approver) && !p.names(approver):
		return fmt.Errorf("%s is shared by several people, so it approves only if the owner names it exactly: %s", approver, p.addTo("approvers"))
	}
	return nil
}

// addTo is the remedy for what a list of the policy lacks.
func (p *Policy) addTo(list string) string {
	if p.kind == written {
		return "add it to " + list + " in " + path.Base(p.file)
	}
	return "write a policy with " + list
}

// names reports whether an approver is written out in the policy.
func (p *Policy) names(id string) bool {
	for _, one := range p.approvers {
		if p.named && one.String() == id {
			return true
		}
	}
	return false
}

// shared reports whether a SPIFFE ID is the one of a whole role.
func shared(id string) bool {
	_, path, _ := strings.Cut(strings.TrimPrefix(id, "spiffe://"), "/")
	return strings.Count(path, "/") < 2
}

// LogsTo returns why what programs and daemons of the host print may not go to a SPIFFE ID, in one line with a remedy; nil if it may. It
// must be one that the host has verified.
func (p *Policy) LogsTo(to string) error {
	if p.logs.Match(to) {
		return nil
	}
	rule := "by default they go to " + p.logs.String()
	switch {
	case p.logsAt.Text != "":
		at := p.logsAt
		at.File = path.Base(at.File)
		rule = at.String()
	case len(p.logs) == 0:
		rule = "no policy says to whom logs may go"
	}
	return fmt.Errorf("logs of this host do not go to %s: %s; to let them, %s", to, rule, p.addTo("logs"))
}

// hostVocabulary has the words that sentences of a policy may use.
func hostVocabulary() sentence.Vocabulary {
	return sentence.Vocabulary{Verbs: []string{sentence.Use}, Resources: []string{hostResource, secretResource}, Facts: facts(), Check: checkValue}
}
