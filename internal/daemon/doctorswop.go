package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// doctorSWOP looks at a SWOP to be. Its profile is read with its options.
func doctorSWOP(c *cli.Context, e Env) (*doctor.Report, error) {
	p := &patient{c: c, e: e, role: identity.RoleSWOP, limit: cmp.Or(e.wait, stepLimit), out: doctor.New("run-swop")}
	o, cfg, err := swopNode(c, e)
	var wrong problems
	if !p.profile(o, err) {
		return p.out, nil
	}
	wrong.add(err)
	p.base, p.options, p.sns = cfg.Common, &o.Node, cfg.SNs
	if !p.optionsWell(wrong) {
		return p.out, nil
	}
	p.base.Log = discard()
	ctx := c.Context
	machine := swop.Machine{Host: cfg.Host, Lookup: net.DefaultResolver.LookupIP, Listen: new(net.ListenConfig).Listen}
	switch err := machine.Free(ctx, cfg.Files); {
	case cfg.Files.Number == 0:
		p.out.Add(doctor.Skip("port", "no file server is wanted: logs go through SNs"))
	case err == nil:
		p.out.Add(doctor.Well("port", fmt.Sprintf("%d is free (--swop-fs-port)", cfg.Files.Number)))
	case cfg.Files.Named:
		p.out.Add(doctor.Errors("port", err, "give another port with --swop-fs-port")...)
	default:
		p.out.Add(doctor.Warn("port", "logs will go through SNs: "+err.Error(), "give a port that is free with --swop-fs-port"))
	}
	p.out.Add(metrics.Look(ctx, p.base.Metrics)...)
	p.stateDir(ctx)
	if policy, err := cfg.Policy("own.example"); err != nil {
		p.out.Add(doctor.Errors("policy", err, "see swarmctl lint policy")...)
	} else {
		p.out.Add(doctor.Well("policy", policy.String()))
	}
	p.swarm(ctx)
	if !cfg.Process || inContainer(c) {
		p.engine(ctx, o.Getenv(e.Getenv)("DOCKER_HOST"), o.Container.Image)
	}
	return p.out, ctx.Err()
}

// profile looks at the profile of a SWOP, and reports whether there is more to look at: err is why the SWOP would not start.
func (p *patient) profile(o *start.SWOP, err error) (more bool) {
	if o.Check() != nil {
		return true // which err says
	}
	wrong, odd, unread := o.LookAtProfile()
	if unread != nil {
		return true // which err says
	}
	add := func(status doctor.Status, all []*yamlfile.Finding) {
		for _, f := range all {
			p.out.Add(doctor.Line("profile", status, fmt.Sprintf("%s:%d: ", f.File, f.Line), f.Text, "see docs/reference/tasks.md"))
		}
	}
	add(doctor.Failed, wrong)
	add(doctor.Warning, odd)
	if len(wrong)+len(odd) == 0 {
		p.out.Add(doctor.Well("profile", o.ProfilePath()+" is read as it stands there"))
	}
	var first *yamlfile.Finding
	if len(wrong) == 0 || !errors.As(err, &first) {
		return true
	}
	p.out.Add(doctor.Skip("everything else", "correct the profile first"))
	return false
}
