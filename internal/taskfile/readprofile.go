package taskfile

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// ReadProfile reads a SWOP's profile leniently. file is its name, for what is said of it. The error is one line and names the file's line;
// what is odd and was read all the same is returned beside the profile.
func ReadProfile(file string, data []byte) (*Profile, []*yamlfile.Finding, error) {
	d := &yamlfile.Document{File: file}
	p := readProfile(d, data)
	if err := d.Err(); err != nil {
		return nil, d.All(yamlfile.Noted, yamlfile.Odd), err
	}
	return p, d.All(yamlfile.Noted, yamlfile.Odd), nil
}

// LookAtProfile returns all for which a host can't use a profile, and all that it reads otherwise than it was probably meant, by line.
func LookAtProfile(file string, data []byte) (wrong, strange []*yamlfile.Finding) {
	d := &yamlfile.Document{File: file}
	readProfile(d, data)
	return d.All(yamlfile.Unfilled, yamlfile.Broken), d.All(yamlfile.Noted, yamlfile.Odd)
}

// LintProfile returns everything in which a profile deviates from what the original documents, by line; none: it is valid.
func LintProfile(file string, data []byte) []*yamlfile.Finding {
	d := &yamlfile.Document{File: file}
	readProfile(d, data)
	return d.All(yamlfile.Strict, yamlfile.Odd, yamlfile.Unfilled, yamlfile.Broken)
}

// policy returns policyuri, which is never taken as null by mistake: null accepts all tasks.
func policy(f *yamlfile.Fields) string {
	if !f.Has("policyuri") && !f.Meant("policyuri") {
		f.Of.Find(yamlfile.Broken, "policyuri is missing: write null, which accepts all tasks, or where the host's policy stands")
		return ""
	}
	v := f.Get("policyuri", yamlfile.Broken)
	if !f.Has("policyuri") {
		return ""
	}
	if v.Node.Kind == yaml.ScalarNode && v.Node.Value == "" {
		v.Find(yamlfile.Broken, "policyuri is empty: write null, which accepts all tasks, or where the host's policy stands")
		return ""
	}
	return f.May("policyuri", yamlfile.Rule{Long: true})
}

func readProfile(d *yamlfile.Document, data []byte) *Profile {
	root := d.Parse(data)
	if root == nil {
		return nil
	}
	f := d.At(root, "").Fields(yamlfile.Broken, "groupname", "taskrunner", "policyuri", "resourcemgr", "network", "apls", "apisrv", "envvars", "dns", "nodes")
	if f == nil {
		return nil
	}
	p := &Profile{
		GroupName:  namedBy(f, "groupname"),
		Taskrunner: namedBy(f, "taskrunner"),
		PolicyURI:  policy(f),
		Network:    f.Want("network", yamlfile.Rule{Long: true}),
		APLS:       located(f.Get("apls", yamlfile.Odd), "host", "port"),
		API:        located(f.Get("apisrv", yamlfile.Odd), "host", "port", "service"),
		Env:        pairs(f.Get("envvars", yamlfile.Odd)),
	}
	docker(f.Get("resourcemgr", yamlfile.Odd))
	for _, v := range f.Get("dns", 0).List() {
		p.DNS = append(p.DNS, v.Text(yamlfile.Rule{Long: true}))
	}
	nodes := f.Get("nodes", yamlfile.Broken)
	for i, item := range nodes.List() {
		if n := node(item, i); n != nil {
			if slices.ContainsFunc(p.Nodes, func(m Node) bool { return m.Index == n.Index }) {
				item.Find(yamlfile.Broken, "%s has idx %d, which another node has: count from 0", item.Name, n.Index)
			}
			if p.Network == "bridge" && n.SLPort == 0 && n.SLFSService == "" {
				item.Find(yamlfile.Odd, "%s has no slport, and in the engine's network bridge nobody finds an SL by its name: write slport : %d, or make a network of your own (docker network create swarm) and name that in network",
					item.Name, 30305+n.Index)
			}
			p.Nodes = append(p.Nodes, *n)
		}
	}
	if len(p.Nodes) == 0 && f.Has("nodes") && !d.Broken() {
		nodes.Find(yamlfile.Broken, "nodes is empty: write at least one slnodedef")
	}
	slices.SortStableFunc(p.Nodes, func(a, b Node) int { return cmp.Compare(a.Index, b.Index) })
	for i, n := range p.Nodes {
		if n.Index != i {
			nodes.Find(yamlfile.Odd, "nodes has no idx %d, and has idx %d: count from 0", i, n.Index)
			break
		}
	}
	p.unfilled = d.First(yamlfile.Unfilled)
	return p
}

// docker holds that the host's containers are made by Docker, as it is found by the environment: there is nothing else.
func docker(v yamlfile.Value) {
	if v.Null() {
		return
	}
	f := v.Fields(yamlfile.Broken, "mgrtype", "accessinfo")
	if f == nil {
		return
	}
	if kind := f.Get("mgrtype", yamlfile.Odd); !kind.Null() {
		kind.OneOf("DOCKER")
	}
	if info := f.Get("accessinfo", yamlfile.Odd); !info.Null() {
		if a := info.Fields(yamlfile.Broken, "accesstype"); a != nil {
			if kind := a.Get("accesstype", yamlfile.Odd); !kind.Null() {
				kind.OneOf("FROMENV")
			}
		}
	}
}

// located reads where a service is. The licence server's address is of no use, so that nothing has to be put in there.
func located(v yamlfile.Value, known ...string) (l Locator) {
	if v.Null() {
		return l
	}
	outer := v.Fields(yamlfile.Broken, "locator")
	if outer == nil {
		return l
	}
	at := outer.Get("locator", yamlfile.Odd)
	if at.Null() {
		return l
	}
	f := at.Fields(yamlfile.Broken, known...)
	if f == nil {
		return l
	}
	l.Host = f.May("host", yamlfile.Rule{Long: true, Unused: v.Name == "apls"})
	l.Port, _ = f.Get("port", yamlfile.Odd).Number(1, 65535)
	if slices.Contains(known, "service") {
		l.Service = f.May("service", yamlfile.Rule{Long: true, Optional: true})
	}
	return l
}

// node reads an item of nodes. The original never looks at what it says before it needs it, so what is odd in it is no error.
func node(v yamlfile.Value, position int) *Node {
	outer := v.Fields(yamlfile.Odd, "slnodedef")
	if outer == nil {
		return nil
	}
	def := outer.Get("slnodedef", yamlfile.Broken)
	if def.Null() {
		if outer.Has("slnodedef") {
			def.Find(yamlfile.Broken, "%s is empty: indent what belongs to it", def.Name)
		}
		return nil
	}
	f := def.Fields(yamlfile.Odd, "idx", "identity", "slhostname", "usrhostname", "slhostip", "slport", "slfsservice", "privatedata", "slenvvars", "usrenvvars",
		"sllabels", "usrlabels", "slnetworkopts", "usrnetworkopts", "usrcontaineropts")
	if f == nil {
		return nil
	}
	n := &Node{
		Index:        position,
		SLHostname:   f.May("slhostname", yamlfile.Rule{Long: true}),
		UserHostname: f.May("usrhostname", yamlfile.Rule{Long: true}),
		SLHostIP:     f.May("slhostip", yamlfile.Rule{Long: true, Optional: true}),
		SLFSService:  f.May("slfsservice", yamlfile.Rule{Long: true, Optional: true}),
		PrivateData:  source(f.Get("privatedata", yamlfile.Odd)),
		SLEnv:        pairs(f.Get("slenvvars", yamlfile.Odd)),
		UserEnv:      pairs(f.Get("usrenvvars", yamlfile.Odd)),
		SLLabels:     labels(f.Get("sllabels", 0)),
		UserLabels:   labels(f.Get("usrlabels", 0)),
		SLAddress:    address(f.Get("slnetworkopts", 0)),
		UserAddress:  address(f.Get("usrnetworkopts", 0)),
		User:         options(f.Get("usrcontaineropts", 0)),
	}
	if i, given := f.Get("idx", yamlfile.Odd).Number(0, yamlfile.MaxItems); given {
		n.Index = i
	}
	n.SLPort, _ = f.Get("slport", 0).Number(1, 65535)
	for _, item := range f.Get("identity", yamlfile.Odd).List() {
		if o := item.Fields(yamlfile.Odd, "attribute"); o != nil {
			if a := attribute(o.Get("attribute", yamlfile.Broken)); a != nil {
				n.Identity = append(n.Identity, *a)
			}
		}
	}
	return n
}

func attribute(v yamlfile.Value) *Attribute {
	if v.Null() {
		v.Find(yamlfile.Broken, "%s is empty: indent what belongs to it", v.Name)
		return nil
	}
	f := v.Fields(yamlfile.Odd, "aType", "mType", "src", "tgt", "subPath", "subpath")
	if f == nil {
		return nil
	}
	a := &Attribute{Src: f.Want("src", yamlfile.Rule{Long: true}), Tgt: f.Want("tgt", yamlfile.Rule{Least: 2, Max: 240})}
	if kind := f.Get("aType", yamlfile.Broken); f.Has("aType") {
		a.Kind = kind.OneOf("KEY", "CERT", "CACERT", "CAPATH", "SPIFFE_SOCKETPATH")
	}
	if kind := f.Get("mType", yamlfile.Broken); f.Has("mType") {
		a.MountType = kind.OneOf(Bind, Volume)
	}
	// The original's schema wants the one and describes the other.
	a.SubPath = f.May("subPath", yamlfile.Rule{Long: true, Optional: true})
	if other := f.May("subpath", yamlfile.Rule{Long: true, Optional: true}); a.SubPath == "" {
		a.SubPath = other
	}
	return a
}

func source(v yamlfile.Value) (s Source) {
	if v.Null() {
		return s
	}
	f := v.Fields(yamlfile.Odd, "src", "mType")
	if f == nil {
		return s
	}
	s.Src = f.Want("src", yamlfile.Rule{Long: true})
	if kind := f.Get("mType", yamlfile.Broken); f.Has("mType") {
		s.MountType = kind.OneOf(Bind, Volume)
	}
	return s
}

// eachOption calls fn for each option of a list of maps, or of a map.
func eachOption(v yamlfile.Value, known []string, fn func(name string, x yamlfile.Value)) {
	items := []yamlfile.Value{v}
	if v.Node.Kind != yaml.MappingNode {
		items = v.List()
	}
	for _, item := range items {
		if item.Null() {
			continue
		}
		if f := item.Fields(yamlfile.Odd, known...); f != nil {
			for _, name := range known {
				if f.Has(name) {
					fn(name, f.Get(name, 0))
				}
			}
		}
	}
}

func address(v yamlfile.Value) (ip string) {
	eachOption(v, []string{"ip"}, func(_ string, x yamlfile.Value) { ip = x.Text(yamlfile.Rule{Null: true, Long: true}) })
	return ip
}

// options reads what a program's container is given of the host. Options that may stand several times add up.
func options(v yamlfile.Value) (o ContainerOptions) {
	many := map[string]*[]string{"device": &o.Devices, "group-add": &o.GroupAdd, "cap-add": &o.CapAdd, "security-opt": &o.SecurityOpt}
	one := map[string]*string{"gpus": &o.GPUs, "ipc": &o.IPC, "shm-size": &o.ShmSize}
	loose := yamlfile.Rule{Any: true, Null: true, Long: true}
	eachOption(v, []string{"gpus", "device", "ipc", "shm-size", "group-add", "cap-add", "security-opt", "privileged"}, func(name string, x yamlfile.Value) {
		switch {
		case name == "privileged":
			o.Privileged = x.Yes()
		case one[name] != nil:
			// Docker wants the quotes in --gpus '"device=3,5"', a file needs none.
			*one[name] = strings.Trim(x.Text(loose), `"`)
		case x.Node.Kind == yaml.SequenceNode:
			for _, y := range x.List() {
				*many[name] = append(*many[name], y.Text(loose))
			}
		case !x.Null():
			*many[name] = append(*many[name], x.Text(loose))
		}
	})
	return o
}
