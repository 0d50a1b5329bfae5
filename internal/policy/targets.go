package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/text"
)

// targetsKey is the key of a policy with the places to which artifacts of jobs may be copied, by the names that jobs have for them.
const targetsKey = "targets"

// Target returns what rclone calls the place that the owner has under a name, REMOTE:PATH; empty: there is none.
func (p *Policy) Target(name string) string { return p.targets[name] }

// aims returns the refusal of a request for a target that the policy does not have; nil: it has all. Who asks does not learn where they are.
func (p *Policy) aims(r Request) *Decision {
	for _, name := range r.Targets {
		if _, there := p.targets[name]; there {
			continue
		}
		asks, entry := fmt.Sprintf("it asks to have artifacts copied to %.80q", name), text.Clip(name, maxName)+": REMOTE:PATH"
		if p.kind != written {
			return &Decision{
				By: Source{Text: "no policy names any " + targetsKey}, Reason: asks + ", and this host has no policy that names targets",
				Remedy: fmt.Sprintf("start the host with a policy that has %s under %s", entry, targetsKey),
			}
		}
		d := &Decision{
			By: Source{File: p.file, Line: 1, Text: "no such target"}, Reason: asks + ", and this host has no target of that name",
			Remedy: fmt.Sprintf("add %s to %s in %s", entry, targetsKey, path.Base(p.file)),
		}
		if near := suggest.Word(name, p.targetNames()); near != "" {
			d.Remedy = fmt.Sprintf("did you mean %s? Else %s", near, d.Remedy)
		}
		return d
	}
	return nil
}

func (p *Policy) targetNames() (all []string) {
	for name := range p.targets {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// remoteForm is the beginning of a place on a remote of rclone's configuration. It is no option, and names no other way to a remote, which could have a
// key in it.
var remoteForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,63}:`)

// targets reads the targets of a policy: NAME: REMOTE:PATH.
func (r *reader) targets(p *Policy, n *yaml.Node) {
	r.named(n, targetsKey, "target", "places, one a line: NAME: REMOTE:PATH", func(k, v *yaml.Node) {
		at, ok := r.text(v)
		switch {
		case !ok:
		case len(at) > maxEntry:
			r.fail(v, "a target has %d bytes, at most %d", len(at), maxEntry)
		case !remoteForm.MatchString(at) || text.Line(at) != at || strings.HasSuffix(at, " "):
			r.fail(v, "%.80q is no target: want REMOTE:PATH, with a remote that `rclone listremotes` shows on this host", at)
		default:
			p.targets[k.Value] = at
		}
	})
}
