package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/swarmd/swarmd/internal/policy/sentence"
	"github.com/swarmd/swarmd/internal/text"
)

// Verdict is what a policy says to a task. The greater one lets more through.
type Verdict int

// The verdicts.
const (
	Refused Verdict = iota
	Asked           // somebody is to approve it first
	Allowed
)

// String returns the verdict in a word.
func (v Verdict) String() string {
	return map[Verdict]string{Refused: "refused", Asked: "ask", Allowed: "allowed"}[v]
}

// Decision is what a policy says to a request, and why.
type Decision struct {
	Verdict Verdict
	// By is the sentence that lets the task through; of a refusal the one that came nearest, or the limit. It has no text if there is none.
	By     Source
	Reason string // of a refusal, in words for who asks, who does not learn in which directory of the host the policy is
	Remedy string // of a refusal: what the host's owner can do
}

// String returns the decision in one line.
func (d Decision) String() string {
	switch d.Verdict {
	case Allowed:
		return fmt.Sprintf("allowed by %s", d.By)
	case Asked:
		return fmt.Sprintf("to be approved first, by %s", d.By)
	case Refused:
	}
	return fmt.Sprintf("refused: %s; %s", d.Reason, d.Remedy)
}

const maxReason = 400 // bytes of a reason: a task's words are in it

// Decide judges a request. What no sentence allows is refused, and so is what exceeds a limit.
func (p *Policy) Decide(r Request) Decision {
	d := p.judge(r)
	for _, s := range r.Secrets {
		if d.Verdict == Refused {
			break
		}
		if given := p.gives(r, s); given.Verdict < d.Verdict {
			d = given
		}
	}
	if d.Verdict != Refused {
		if over := p.exceeds(r); over != nil {
			d = *over
		}
	}
	d.Reason, d.Remedy = text.Clip(text.Line(d.Reason), maxReason), text.Line(d.Remedy)
	return d
}

// judge judges who asks for what, without limits.
func (p *Policy) judge(r Request) Decision {
	switch {
	case r.Submitter == "":
		return Decision{Reason: "nobody is known to have asked for it", Remedy: "assign the task anew"}
	case p.kind == none && r.Runtime == Process && !r.Local:
		return Decision{
			By: Source{Text: "no policy"}, Reason: "this host has no policy, and would run it as a process outside containers",
			Remedy: "start the host with --policy ask, or with a policy that names who may use it",
		}
	case p.kind == none && ofSL(r.Submitter):
		return Decision{
			By: Source{Text: "no policy"}, Reason: "this host has no policy, and runs ranks only of SLs that one names",
			Remedy: "start the host with --policy ask, or with a policy that says: " + r.sentence(hostResource, r.known()),
		}
	case p.kind == none:
		return Decision{Verdict: Allowed, By: Source{Text: "no policy"}}
	case p.kind == askAlways:
		return Decision{Verdict: Asked, By: Source{Text: "--policy ask"}}
	}
	return p.bySentences(r, hostResource, r.known())
}

// bySentences judges a request for a resource by the sentences of a policy.
func (p *Policy) bySentences(r Request, resource string, facts map[string]string) Decision {
	a := sentence.Action{Subject: r.Submitter, Verb: sentence.Use, Resource: resource, Facts: facts, Open: r.open()}
	if all := r.Image.Values(); len(all) > 1 {
		a.More = map[string][]string{imageDigest: all[1:]}
	}
	best, nearest := Decision{}, -1
	for _, rule := range p.rules {
		if rule.Resource != resource {
			continue
		}
		fit := rule.Judge(a)
		if fit.Allows && ofSL(r.Submitter) && !namesSLs(rule.Subjects, r.Submitter) {
			fit = sentence.Fit{Why: "it is for whoever matches, and an SL must be named: spiffe://DOMAIN/swarm/sl/NAME"}
		}
		verdict := Allowed
		if rule.ask {
			verdict = Asked
		}
		switch {
		case fit.Allows && verdict > best.Verdict:
			best = Decision{Verdict: verdict, By: rule.at}
		case !fit.Allows && best.Verdict == Refused && fit.Near > nearest:
			nearest = fit.Near
			best = Decision{By: rule.at, Reason: fmt.Sprintf("%s:%d does not allow it, as %s", path.Base(rule.at.File), rule.at.Line, fit.Why)}
		}
	}
	if best.Verdict != Refused {
		return best
	}
	if best.Reason == "" {
		best.Reason = path.Base(p.file) + " has no sentence about the " + resource
	}
	if r.Image.Unknown != "" {
		best.Reason += "; image " + r.Image.String()
	}
	best.Remedy = fmt.Sprintf("add to sentences in %s: %s", path.Base(p.file), r.sentence(resource, facts))
	return best
}

// sentence is one that allows the request and little else. What came in words of somebody else's is left out if no sentence could have it.
func (r Request) sentence(resource string, facts map[string]string) string {
	var where []string
	for _, fact := range []string{secretName, "task.type", imageDigest, "task.digest"} {
		value := facts[fact]
		if value == "" || checkValue(fact, value) != nil || fact == "task.digest" && facts[imageDigest] != "" {
			continue
		}
		where = append(where, fact+"="+sentence.Quote(value))
	}
	s := "Allow " + r.Submitter + " to use " + resource
	if len(where) == 0 {
		return s
	}
	return s + " where all {" + strings.Join(where, ", ") + "}"
}
