package swop

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
)

// hopes judges a task without a look at the host.
func (o Owner) hopes(a asked) consent.Verdict {
	v := o.judged(a.all...)
	if v.Decision == consent.Refused || len(a.paths) == 0 || o.Policy.Binds() {
		return v
	}
	r := a.all[0]
	r.Paths = a.paths
	return o.judged(r)
}

// shared judges a task that names paths of the host, by where they lead. Nothing looks at the host for a task that is refused anyway.
func (o Owner) shared(ctx context.Context, a asked) consent.Verdict {
	v := o.hopes(a)
	if v.Decision == consent.Refused || len(a.paths) == 0 {
		return v
	}
	if _, no := o.given(ctx, o.Recent, a.paths); no.Decision != consent.Allowed {
		return no
	}
	return v
}

// given returns where paths lead that a task names, with Allowed if the policy gives all of them. What it says else it says of the first that
// is not given, and of what this host has outside the paths that it gives it says nothing but to its own log.
func (o Owner) given(ctx context.Context, r hostpaths.Resolver, names []string) (map[string]string, consent.Verdict) {
	leads, err := r.Resolve(ctx, names)
	if err != nil {
		return nil, consent.Verdict{Decision: consent.Later, Sentence: "this host can't say now where the paths lead that the task names", Detail: err.Error()}
	}
	all := map[string]string{}
	for _, name := range names {
		if no, detail := o.withheld(name, leads[name]); no != "" {
			return nil, consent.Verdict{Decision: consent.Refused, Sentence: no, Detail: detail}
		}
		all[name] = leads[name].At
	}
	return all, consent.Verdict{Decision: consent.Allowed}
}

// withheld says why a path is not given, and in detail what only this host is to know of it; empty: it is given.
func (o Owner) withheld(name string, lead hostpaths.Lead) (why, detail string) {
	detail = fmt.Sprintf("%.200q leads to %.200q", name, lead.At)
	switch {
	case lead.At == "":
		return fmt.Sprintf("it asks for the path %.200q: %s", name, lead.Why), ""
	case !o.Policy.Gives(lead.At):
		return verdictOf(o.Policy.Withholds(name)).Sentence, fmt.Sprintf("%s %s", detail, lead.Why)
	case lead.Why != "":
		return fmt.Sprintf("it asks for the path %.200q: %s", name, lead.Why), detail
	}
	if own := o.identityIn(lead.At); own != "" {
		return fmt.Sprintf("it asks for the directory %.200q, and there is the identity of an SL of this host: name another directory in the task", name), fmt.Sprintf("%s, and the identity is in %.200q", detail, own)
	}
	return "", ""
}

// identityIn returns a file or directory of the identities of this host's SLs that a path has in it, or lies in; empty: there is none.
func (o Owner) identityIn(at string) string {
	for _, own := range o.Profile.IdentityFiles() {
		if hostpaths.Overlap(filepath.Clean(own), at) {
			return own
		}
	}
	return ""
}

// Grant is what a task has of the host that was consented to, with Allowed. It looks anew where paths lead: what it grants the policy gives.
func (o Owner) Grant(ctx context.Context, t *task.Task) (g work.Grant, v consent.Verdict) {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return g, o.decide(nil, err)
	}
	run, _ := body.(taskfile.RunSwarm)
	for _, v := range volumesOf(body, t.Outcome) {
		if o.Policy.Names(v) {
			g.Volumes = append(g.Volumes, v)
		}
	}
	v.Decision = consent.Allowed
	names := run.Shared(taskfile.Bind)
	if len(names) == 0 {
		return g, v
	}
	if g.Paths, v = o.given(ctx, o.Paths, names); v.Decision != consent.Allowed {
		return work.Grant{}, v
	}
	return g, v
}
