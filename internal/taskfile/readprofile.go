package taskfile

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ReadProfile reads a SWOP's profile leniently. file is its name, for what is said of it. The error is one line and names the file's line;
// what is odd and was read all the same is returned beside the profile.
func ReadProfile(file string, data []byte) (*Profile, []*Finding, error) {
	d := &document{file: file}
	p := d.profile(data)
	if err := d.err(); err != nil {
		return nil, d.all(noted, odd), err
	}
	return p, d.all(noted, odd), nil
}

// LookAtProfile returns all for which a host can't use a profile, and all that it reads otherwise than it was probably meant, by line.
func LookAtProfile(file string, data []byte) (wrong, strange []*Finding) {
	d := &document{file: file}
	d.profile(data)
	return d.all(unfilled, broken), d.all(noted, odd)
}

// LintProfile returns everything in which a profile deviates from what the original documents, by line; none: it is valid.
func LintProfile(file string, data []byte) []*Finding {
	d := &document{file: file}
	d.profile(data)
	return d.all(strict, odd, unfilled, broken)
}

// policy returns policyuri, which is never taken as null by mistake: null accepts all tasks.
func (f *fields) policy() string {
	if !f.has("policyuri") && !slices.Contains(f.near, "policyuri") {
		f.of.find(broken, "policyuri is missing: write null, which accepts all tasks, or where the host's policy stands")
		return ""
	}
	v := f.get("policyuri", broken)
	if !f.has("policyuri") {
		return ""
	}
	if v.n.Kind == yaml.ScalarNode && v.n.Value == "" {
		v.find(broken, "policyuri is empty: write null, which accepts all tasks, or where the host's policy stands")
		return ""
	}
	return f.may("policyuri", rule{long: true})
}

func (d *document) profile(data []byte) *Profile {
	root := d.parse(data)
	if root == nil {
		return nil
	}
	f := d.at(root, "").fields(broken, "groupname", "taskrunner", "policyuri", "resourcemgr", "network", "apls", "apisrv", "envvars", "dns", "nodes")
	if f == nil {
		return nil
	}
	p := &Profile{
		GroupName:  f.named("groupname"),
		Taskrunner: f.named("taskrunner"),
		PolicyURI:  f.policy(),
		Network:    f.want("network", rule{long: true}),
		APLS:       f.get("apls", odd).located("host", "port"),
		API:        f.get("apisrv", odd).located("host", "port", "service"),
		Env:        f.get("envvars", odd).pairs(),
	}
	f.get("resourcemgr", odd).docker()
	for _, v := range f.get("dns", 0).list() {
		p.DNS = append(p.DNS, v.text(rule{long: true}))
	}
	nodes := f.get("nodes", broken)
	for i, item := range nodes.list() {
		if n := item.node(i); n != nil {
			if slices.ContainsFunc(p.Nodes, func(m Node) bool { return m.Index == n.Index }) {
				item.find(broken, "%s has idx %d, which another node has: count from 0", item.name, n.Index)
			}
			if p.Network == "bridge" && n.SLPort == 0 && n.SLFSService == "" {
				item.find(odd, "%s has no slport, and in the engine's network bridge nobody finds an SL by its name: write slport : %d, or make a network of your own (docker network create swarm) and name that in network",
					item.name, 30305+n.Index)
			}
			p.Nodes = append(p.Nodes, *n)
		}
	}
	if len(p.Nodes) == 0 && f.has("nodes") && !d.broken() {
		nodes.find(broken, "nodes is empty: write at least one slnodedef")
	}
	slices.SortStableFunc(p.Nodes, func(a, b Node) int { return cmp.Compare(a.Index, b.Index) })
	for i, n := range p.Nodes {
		if n.Index != i {
			nodes.find(odd, "nodes has no idx %d, and has idx %d: count from 0", i, n.Index)
			break
		}
	}
	p.unfilled = d.first(unfilled)
	return p
}

// docker holds that the host's containers are made by Docker, as it is found by the environment: there is nothing else.
func (v value) docker() {
	if v.null() {
		return
	}
	f := v.fields(broken, "mgrtype", "accessinfo")
	if f == nil {
		return
	}
	if kind := f.get("mgrtype", odd); !kind.null() {
		kind.oneOf("DOCKER")
	}
	if info := f.get("accessinfo", odd); !info.null() {
		if a := info.fields(broken, "accesstype"); a != nil {
			if kind := a.get("accesstype", odd); !kind.null() {
				kind.oneOf("FROMENV")
			}
		}
	}
}

// located reads where a service is. The licence server's address is of no use, so that nothing has to be put in there.
func (v value) located(known ...string) (l Locator) {
	if v.null() {
		return l
	}
	outer := v.fields(broken, "locator")
	if outer == nil {
		return l
	}
	at := outer.get("locator", odd)
	if at.null() {
		return l
	}
	f := at.fields(broken, known...)
	if f == nil {
		return l
	}
	l.Host = f.may("host", rule{long: true, unused: v.name == "apls"})
	l.Port, _ = f.get("port", odd).number(1, 65535)
	if slices.Contains(known, "service") {
		l.Service = f.may("service", rule{long: true, optional: true})
	}
	return l
}

// node reads an item of nodes. The original never looks at what it says before it needs it, so what is odd in it is no error.
func (v value) node(position int) *Node {
	outer := v.fields(odd, "slnodedef")
	if outer == nil {
		return nil
	}
	def := outer.get("slnodedef", broken)
	if def.null() {
		if outer.has("slnodedef") {
			def.find(broken, "%s is empty: indent what belongs to it", def.name)
		}
		return nil
	}
	f := def.fields(odd, "idx", "identity", "slhostname", "usrhostname", "slhostip", "slport", "slfsservice", "privatedata", "slenvvars", "usrenvvars",
		"sllabels", "usrlabels", "slnetworkopts", "usrnetworkopts", "usrcontaineropts")
	if f == nil {
		return nil
	}
	n := &Node{
		Index:        position,
		SLHostname:   f.may("slhostname", rule{long: true}),
		UserHostname: f.may("usrhostname", rule{long: true}),
		SLHostIP:     f.may("slhostip", rule{long: true, optional: true}),
		SLFSService:  f.may("slfsservice", rule{long: true, optional: true}),
		PrivateData:  f.get("privatedata", odd).source(),
		SLEnv:        f.get("slenvvars", odd).pairs(),
		UserEnv:      f.get("usrenvvars", odd).pairs(),
		SLLabels:     f.get("sllabels", 0).labels(),
		UserLabels:   f.get("usrlabels", 0).labels(),
		SLAddress:    f.get("slnetworkopts", 0).address(),
		UserAddress:  f.get("usrnetworkopts", 0).address(),
		User:         f.get("usrcontaineropts", 0).options(),
	}
	if i, given := f.get("idx", odd).number(0, maxItems); given {
		n.Index = i
	}
	n.SLPort, _ = f.get("slport", 0).number(1, 65535)
	for _, item := range f.get("identity", odd).list() {
		if o := item.fields(odd, "attribute"); o != nil {
			if a := o.get("attribute", broken).attribute(); a != nil {
				n.Identity = append(n.Identity, *a)
			}
		}
	}
	return n
}

func (v value) attribute() *Attribute {
	if v.null() {
		v.find(broken, "%s is empty: indent what belongs to it", v.name)
		return nil
	}
	f := v.fields(odd, "aType", "mType", "src", "tgt", "subPath", "subpath")
	if f == nil {
		return nil
	}
	a := &Attribute{Src: f.want("src", rule{long: true}), Tgt: f.want("tgt", rule{least: 2, max: 240})}
	if kind := f.get("aType", broken); f.has("aType") {
		a.Kind = kind.oneOf("KEY", "CERT", "CACERT", "CAPATH", "SPIFFE_SOCKETPATH")
	}
	if kind := f.get("mType", broken); f.has("mType") {
		a.MountType = kind.oneOf(Bind, Volume)
	}
	// The original's schema wants the one and describes the other.
	a.SubPath = f.may("subPath", rule{long: true, optional: true})
	if other := f.may("subpath", rule{long: true, optional: true}); a.SubPath == "" {
		a.SubPath = other
	}
	return a
}

func (v value) source() (s Source) {
	if v.null() {
		return s
	}
	f := v.fields(odd, "src", "mType")
	if f == nil {
		return s
	}
	s.Src = f.want("src", rule{long: true})
	if kind := f.get("mType", broken); f.has("mType") {
		s.MountType = kind.oneOf(Bind, Volume)
	}
	return s
}

// each calls fn for each option of a list of maps, or of a map.
func (v value) each(known []string, fn func(name string, x value)) {
	items := []value{v}
	if v.n.Kind != yaml.MappingNode {
		items = v.list()
	}
	for _, item := range items {
		if item.null() {
			continue
		}
		if f := item.fields(odd, known...); f != nil {
			for _, name := range known {
				if f.has(name) {
					fn(name, f.values[name])
				}
			}
		}
	}
}

func (v value) address() (ip string) {
	v.each([]string{"ip"}, func(_ string, x value) { ip = x.text(rule{null: true, long: true}) })
	return ip
}

// options reads what a program's container is given of the host. Options that may stand several times add up.
func (v value) options() (o ContainerOptions) {
	many := map[string]*[]string{"device": &o.Devices, "group-add": &o.GroupAdd, "cap-add": &o.CapAdd, "security-opt": &o.SecurityOpt}
	one := map[string]*string{"gpus": &o.GPUs, "ipc": &o.IPC, "shm-size": &o.ShmSize}
	loose := rule{any: true, null: true, long: true}
	v.each([]string{"gpus", "device", "ipc", "shm-size", "group-add", "cap-add", "security-opt", "privileged"}, func(name string, x value) {
		switch {
		case name == "privileged":
			o.Privileged = x.yes()
		case one[name] != nil:
			// Docker wants the quotes in --gpus '"device=3,5"', a file needs none.
			*one[name] = strings.Trim(x.text(loose), `"`)
		case x.n.Kind == yaml.SequenceNode:
			for _, y := range x.list() {
				*many[name] = append(*many[name], y.text(loose))
			}
		case !x.null():
			*many[name] = append(*many[name], x.text(loose))
		}
	})
	return o
}
