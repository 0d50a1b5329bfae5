package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/handshake"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/node"
)

// stepLimit bounds each look of a doctor that waits for somebody. An agent may take 8 s to learn of a new entry.
const stepLimit = 10 * time.Second

const spirePort = 8081 // of a SPIRE server unless told otherwise

// network looks at the node's own name and ports, and returns the addresses of the name.
func (p *patient) network(ctx context.Context) []net.IP {
	ips := p.resolve(ctx, "host-ip", p.base.Host)
	if ips == nil {
		p.out.Add(doctor.Skip("port", "where to listen is not known until --host-ip resolves"))
		return nil
	}
	bind := address.Bindable(ips)
	for _, c := range p.ports {
		if err := address.Listen(new(net.ListenConfig).Listen).CheckFree(ctx, bind, c.flag, c.port); err != nil {
			p.out.Add(doctor.Errors("port", err, "give another port with --"+c.flag)...)
			continue
		}
		at := "on " + bind
		if bind == "" {
			at = "on all addresses, as " + p.base.Host + " is none of this machine's"
		}
		p.out.Add(doctor.Well("port", fmt.Sprintf("%d is free %s (--%s)", c.port, at, c.flag)))
	}
	return ips
}

// resolve adds what a name is, unless it is an address; nil: it does not resolve.
func (p *patient) resolve(ctx context.Context, flag, host string) []net.IP {
	ips, err := address.Lookup(net.DefaultResolver.LookupIP).Resolve(ctx, flag, host)
	if err != nil {
		p.out.Add(doctor.Errors("name", err, "")...)
		return nil
	}
	if net.ParseIP(host) == nil {
		var all []string
		for _, ip := range ips[:min(len(ips), 4)] {
			all = append(all, ip.String())
		}
		p.out.Add(doctor.Well("name", fmt.Sprintf("%s is %s (--%s)", host, strings.Join(all, ", "), flag)))
	}
	return ips
}

// joins are the file servers at which an SN asks for a swarm: --join, and the Sentinel's unless that is the node itself.
func (p *patient) joins(ctx context.Context, cfg node.SNConfig, own []net.IP) (at []string) {
	for _, j := range cfg.Join {
		if hostPort, err := address.FileServer(j); err == nil { // checked with the options
			at = append(at, hostPort)
		}
	}
	if cfg.SentinelHost == cfg.Host {
		return at
	}
	ips := p.resolve(ctx, "sentinel-ip", cfg.SentinelHost)
	if ips == nil || address.Same(own, ips) && cfg.SentinelFSPort == cfg.FSPort {
		return at
	}
	return append(at, address.Join(cfg.SentinelHost, cfg.SentinelFSPort))
}

// stateDir looks whose state directory it is, and whether it can be had. It writes nothing.
func (p *patient) stateDir(ctx context.Context) {
	const check, remedy = "state directory", "give another --state-dir or --name"
	dir := p.base.StateDir
	if _, err := os.Stat(dir); err != nil {
		if above, err := usable(dir); err != nil {
			p.out.Add(doctor.Fail(check, err.Error(), "let this user write to "+above+", or name another directory with --state-dir"))
			return
		}
		p.out.Add(doctor.Well(check, dir+" will be made"))
		return
	}
	if _, err := usable(dir); err != nil {
		p.out.Add(doctor.Fail(check, err.Error(), "let this user write to it, or name another directory with --state-dir"))
		return
	}
	name, role, err := identity.OwnerOf(dir)
	switch {
	case err != nil && !os.IsNotExist(err):
		p.out.Add(doctor.Fail(check, err.Error(), "restore it, or "+remedy))
		return
	case err == nil && (name != p.base.Name || role != p.role):
		p.out.Add(doctor.Fail(check, fmt.Sprintf("%s belongs to node %s (role %s), not to %s (role %s)", dir, name, role, p.base.Name, p.role), remedy))
		return
	}
	if _, err := health.Read(ctx, dir); err == nil {
		p.out.Add(doctor.Fail(check, dir+" is in use by a swarmd that runs", "stop it, or "+remedy))
		return
	}
	p.out.Add(doctor.Well(check, dir))
}

// swarm looks at the identity, and by it at the SNs.
func (p *patient) swarm(ctx context.Context) {
	source := p.identity(ctx)
	if source == nil {
		for _, sn := range p.sns {
			p.reach(ctx, sn)
		}
		return
	}
	defer source.Close()
	domains, err := identity.DomainsOf(source, p.base.TrustDomains...)
	if err != nil {
		p.out.Add(doctor.Errors("identity", err, "correct --trust-domain")...)
		return
	}
	for _, name := range domains.Names() {
		if !slices.Contains(source.Status().Domains, name) {
			p.out.Add(doctor.Fail("trust domain", name+" is accepted, but no CA certificate of it is known here", "let the two authorities federate, or add its CA to --cacert"))
		}
	}
	if len(p.sns) == 0 {
		p.out.Add(doctor.Warn("sn", "no SN is named but this one: it founds a NEW swarm, unless its state directory has one", "to join a swarm that runs, name one of its SNs with --sentinel-ip or --join"))
	}
	pinned := p.pinned()
	for _, sn := range p.sns {
		pinned = p.handshake(ctx, sn, handshake.Config{Source: source, Domains: domains, SwarmID: pinned}, source.Status())
	}
}

// pinned is the swarm that the node belongs to already, or is meant for.
func (p *patient) pinned() string {
	id, err := membership.Pinned(p.base.StateDir, p.base.SwarmID)
	if err != nil {
		p.out.Add(doctor.Errors("swarm", err, "give another --state-dir, or another --swarm-id")...)
	}
	return id
}

// identity opens the node's identity; nil: there is none, or it can not be tried without using up what gives it.
func (p *patient) identity(ctx context.Context) identity.Provider {
	const check = "identity"
	agent, err := p.options.AgentConfig(p.e.Getenv)
	if err != nil {
		p.out.Add(doctor.Errors(check, err, "correct the agent's options")...)
		return nil
	}
	if agent != nil {
		p.agent(ctx, agent)
		return nil
	}
	ctx, cancel := p.within(ctx, "answer with an identity for this node")
	defer cancel()
	if socket := p.base.SocketPath; socket != "" {
		if _, err := os.Stat(socket); err != nil {
			p.out.Add(doctor.Fail(check, fmt.Sprintf("there is no socket %s of a Workload API: %v", socket, err),
				"start the SPIRE agent, or `swarmd run-authority` for --identity embedded, or correct --socket-path"))
			return nil
		}
	}
	source, err := p.base.Identify(ctx, p.role)
	if err != nil {
		remedy := spire.ExplainHost(p.role, p.base.Name)(err)
		p.out.Add(doctor.Errors(check, err, cmp.Or(remedy, "ask the authority's operator for an identity of role "+string(p.role)+"; the agent's log says what it refuses"))...)
		return nil
	}
	st, now := source.Status(), time.Now()
	if why := identity.Validity(st.NotBefore, st.NotAfter, now); why != "" {
		p.out.Add(doctor.Fail("clock", st.ID.String()+": the certificate "+why, "let both machines keep time by NTP, or renew the certificate"))
		return source
	}
	p.out.Add(doctor.Well(check, fmt.Sprintf("%s, valid for another %s, from %s", st.ID, health.Words(st.NotAfter.Sub(now)), st.Origin)))
	for _, w := range health.Warnings(health.Facts{Identity: st}, now) {
		p.out.Add(doctor.Warn(check, w, "renew the certificate before it ends"))
	}
	return source
}

// agent looks at what a SPIRE agent of the node's own needs. It is not started: a join token is good for one start.
func (p *patient) agent(ctx context.Context, cfg *spire.AgentConfig) {
	p.out.Add(doctor.Skip("identity", "it comes from a SPIRE agent that the node starts; that uses up a join token and is not tried"))
	if cfg.ServerAddress == "" {
		return
	}
	port := cfg.ServerPort
	if port == 0 {
		port = spirePort
	}
	p.reach(ctx, net.JoinHostPort(cfg.ServerAddress, strconv.Itoa(port)))
}

// reach looks whether something listens at HOST:PORT, where there is no identity to say more by.
func (p *patient) reach(ctx context.Context, at string) {
	step := handshake.Connect(ctx, at)
	if !step.OK {
		p.out.Add(doctor.Fail("connection", step.Detail, doctor.Handshake(step.Step, at)))
		return
	}
	p.out.Add(doctor.Well("connection", step.Detail+"; who it is was not checked, for want of an identity"))
}

// handshake looks at one SN and returns the swarm that the next must be of.
func (p *patient) handshake(ctx context.Context, at string, cfg handshake.Config, own identity.Status) (swarm string) {
	h := handshake.New(cfg)
	res := h.Run(ctx, at, own)
	p.out.Add(judged(res, at))
	if ahead, ok := h.Offset(); ok {
		p.out.Add(doctor.Clock(at, ahead))
	}
	if cfg.SwarmID == "" && res.OK && res.Peer != nil {
		return res.Peer.SwarmID
	}
	return cfg.SwarmID
}

// judged is the row of a handshake with an SN. One that is not healthy may be so for want of this very node.
func judged(res handshake.Result, at string) doctor.Row {
	step, bad := res.Failed()
	switch {
	case bad && step.Step == "health":
		return doctor.Warn("sn", fmt.Sprintf("%s answers and is not healthy: %s", at, step.Detail), doctor.Handshake(step.Step, at))
	case bad:
		return doctor.Fail("sn", fmt.Sprintf("%s: %s: %s", at, step.Step, step.Detail), doctor.Handshake(step.Step, at))
	}
	if role := identity.Role(res.Peer.Role); role != identity.RoleSN {
		return doctor.Fail("sn", fmt.Sprintf("%s is %s, which has role %s", at, res.Peer.SpiffeID, role), doctor.Handshake("role", at))
	}
	of := "of no swarm yet"
	if res.Peer.SwarmID != "" {
		of = "of swarm " + res.Peer.SwarmID
	}
	return doctor.Well("sn", fmt.Sprintf("%s is %s, %s; it accepts this node", at, res.Peer.SpiffeID, of))
}
