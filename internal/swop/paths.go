package swop

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
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

// shared judges a task that names paths or folders of the host, by where they lead. Nothing looks at the host for a task that is refused anyway.
func (o Owner) shared(ctx context.Context, a asked) consent.Verdict {
	v := o.hopes(a)
	if v.Decision == consent.Refused {
		return v
	}
	if len(a.paths) > 0 {
		if _, no := o.given(ctx, o.Recent, a.paths); no.Decision != consent.Allowed {
			return no
		}
	}
	if _, no := o.lent(ctx, o.Recent, a.all[0].Folders); no.Decision != consent.Allowed { // all name the same
		return no
	}
	return v
}

// given returns where paths lead that a task names, with Allowed if the policy gives all of them. What it says else it says of the first that
// is not given, and of what this host has outside the paths that it gives it says nothing but to its own log.
func (o Owner) given(ctx context.Context, r hostpaths.Resolver, names []string) (map[string]string, consent.Verdict) {
	own, err := o.own(ctx)
	var leads map[string]hostpaths.Lead
	if err == nil {
		leads, err = r.Resolve(ctx, names)
	}
	if err != nil {
		return nil, unlooked(err)
	}
	all := map[string]string{}
	for _, name := range names {
		if no, detail := o.withheld(name, leads[name], own); no != "" {
			return nil, consent.Verdict{Decision: consent.Refused, Sentence: no, Detail: detail}
		}
		all[name] = leads[name].At
	}
	return all, consent.Verdict{Decision: consent.Allowed}
}

// unlooked is what is said of paths that can't be looked at.
func unlooked(err error) consent.Verdict {
	v := consent.Verdict{Decision: consent.Later, Sentence: "this host can't say now where the paths lead that the task names", Detail: work.Explained(err)}
	if why := work.Lasts(err); why != "" {
		v.Lasts, v.Sentence = true, "this host can't say where the paths lead that the task names, as "+why+": correct it as its SWOP's log says, and assign the task again"
	}
	return v
}

// withheld says why a path is not given, and in detail what only this host is to know of it; empty: it is given.
func (o Owner) withheld(name string, lead hostpaths.Lead, own []string) (why, detail string) {
	detail = fmt.Sprintf("%.200q leads to %.200q", name, lead.At)
	switch {
	case lead.At == "":
		return fmt.Sprintf("it asks for the path %.200q: %s", name, lead.Why), ""
	case !o.Policy.Gives(lead.At):
		return verdictOf(o.Policy.Withholds(name)).Sentence, fmt.Sprintf("%s %s", detail, lead.Why)
	case lead.Why != "":
		return fmt.Sprintf("it asks for the path %.200q: %s", name, lead.Why), detail
	}
	if i := slices.IndexFunc(own, func(p string) bool { return hostpaths.Overlap(p, lead.At) }); i >= 0 {
		why = fmt.Sprintf("it asks for the directory %.200q, and there is what this host keeps for itself, such as the identity of an SL or of this host: name another directory in the task", name)
		return why, fmt.Sprintf("%s, and %.200q is this host's own", detail, own[i])
	}
	return "", ""
}

// own are the paths that no task is given, whatever the policy gives: those of this host, and the identities of its SLs. Each is there as it is
// named and as it leads; of one that leads nowhere, as far as it leads. An error is also one that leads where nobody may look.
func (o Owner) own(ctx context.Context) (all []string, err error) {
	identities := o.Profile.IdentityFiles()
	for i, name := range identities {
		if identities[i], err = filepath.Abs(identity.UnixPath(name)); err != nil {
			return nil, err
		}
	}
	for named := range slices.Chunk(slices.Concat(o.Own, identities), maxAtOnce) {
		leads, err := o.Recent.Resolve(ctx, named)
		if err != nil {
			return nil, err
		}
		for _, name := range named {
			lead := leads[name]
			if lead.Closed && !o.Process { // a process may not look there either
				return nil, fmt.Errorf("this host's own %.200q may lead anywhere: of %.200q, %s; start the SWOP as a user who may look there, or in a container", name, lead.At, lead.Why)
			}
			if all = append(all, filepath.Clean(name)); lead.At != "" {
				all = append(all, lead.At)
			}
		}
	}
	return all, nil
}

// maxAtOnce is how many paths are looked at together.
const maxAtOnce = 32

// Grant is what a task has of the host that was consented to, with Allowed. It looks anew where paths lead: what it grants the policy gives.
func (o Owner) Grant(ctx context.Context, t *task.Task) (g work.Grant, v consent.Verdict) {
	if t.Type == task.RunJob {
		return o.lends(ctx, t)
	}
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return g, unreadable(err)
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
