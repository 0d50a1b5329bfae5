package policy

import (
	"fmt"

	"github.com/swarmd/swarmd/internal/policy/sentence"
)

// The resources of sentences: a host carries a task out, and a task is given a secret of the host's.
const hostResource, secretResource = "host", "secret"

// secretName is the fact that only secrets have.
const secretName = "secret.name"

// gives says whether a task may have a secret of the host's. Only sentences in a file give one.
func (p *Policy) gives(r Request, name string) Decision {
	facts := r.known()
	facts[secretName] = name
	reason := fmt.Sprintf("it asks for the secret %.64q, which this host does not give to it", name)
	if p.kind != written {
		return Decision{
			By: Source{Text: "no policy names any secret"}, Reason: reason,
			Remedy: "start the host with a policy that has among its sentences: " + r.sentence(secretResource, facts),
		}
	}
	d := p.bySentences(r, secretResource, facts)
	if d.Verdict == Refused {
		d.Reason = reason + ": " + d.Reason
	}
	return d
}

// names reports whether a condition names a fact.
func names(c sentence.Condition, fact string) bool {
	for _, part := range c.Parts {
		if names(part, fact) {
			return true
		}
	}
	return c.Fact == fact
}
