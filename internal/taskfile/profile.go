package taskfile

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Profile is what a SWOP's profile says of its host.
type Profile struct {
	GroupName  string // of the SWOP: what it makes is named by it
	Taskrunner string // whose tasks it carries out
	PolicyURI  string // where the host's policy stands; empty: null, all tasks are accepted
	Network    string // that containers are in
	APLS       Locator
	API        Locator // of the SN; what is given here comes before the command line
	Env        []Var   // of all SL components; those of proxies hold in builds too
	DNS        []string
	Nodes      []Node // SL components that RUN_SWARM starts, by Index, which counts from 0

	unfilled *yamlfile.Finding
}

// Locator is where a service is. Empty fields, and port 0, were not given.
type Locator struct {
	Host    string
	Port    int
	Service string // FQDN[:PORT]
}

// Node is an SL component with its user's program.
type Node struct {
	Index        int
	Identity     []Attribute
	SLHostname   string // empty: null
	UserHostname string
	SLHostIP     string
	SLPort       int // 0: 30305 in the network, not published
	SLFSService  string
	PrivateData  Source // the zero value: there is none
	SLEnv        []Var
	UserEnv      []Var
	SLLabels     []Var
	UserLabels   []Var
	SLAddress    string // in the network; empty: any
	UserAddress  string
	User         ContainerOptions // of the program's container
}

// Attribute is a file, directory or socket of a node's identity.
type Attribute struct {
	Kind      string // KEY, CERT, CACERT, CAPATH or SPIFFE_SOCKETPATH
	MountType string // Bind or Volume
	Src, Tgt  string
	SubPath   string // within Src
}

// Source is what a host's private data are in.
type Source struct{ Src, MountType string }

// ContainerOptions are what a program's container is given of the host.
type ContainerOptions struct {
	GPUs        string // of NVIDIA, as Docker's --gpus has it: all, or device=3,5
	Devices     []string
	IPC         string
	ShmSize     string
	GroupAdd    []string
	CapAdd      []string
	SecurityOpt []string
	Privileged  bool
}

// Unfilled returns the first placeholder that the profile still has, such as <CURRENT-PATH>, as an error; nil if there is none.
func (p *Profile) Unfilled() error { return asError(p.unfilled) }

// Peers is for how many a host with the profile counts in RUN_SWARM.
func (p *Profile) Peers() int { return len(p.Nodes) }

// Indexes are those of the nodes.
func (p *Profile) Indexes() (all []int) {
	for i := range p.Nodes {
		all = append(all, p.Nodes[i].Index)
	}
	return all
}

// SLEnv is the environment of a node's SL component: the profile's, in which the node's own holds.
func (p *Profile) SLEnv(n *Node) []Var { return over(p.Env, n.SLEnv) }

// IdentityVolumes are the engine's volumes in which the SLs have their identities.
func (p *Profile) IdentityVolumes() (all []string) {
	for i := range p.Nodes {
		for _, a := range p.Nodes[i].Identity {
			if strings.EqualFold(a.MountType, Volume) && !slices.Contains(all, a.Src) {
				all = append(all, a.Src)
			}
		}
	}
	return all
}

// IdentityFiles are the paths of the host under which the SLs have their identities.
func (p *Profile) IdentityFiles() (all []string) {
	for i := range p.Nodes {
		for _, a := range p.Nodes[i].Identity {
			if !strings.EqualFold(a.MountType, Volume) && a.Src != "" && !slices.Contains(all, a.Src) {
				all = append(all, a.Src)
			}
		}
	}
	return all
}

// SetsSessionTimeout reports whether the profile says how long a node's program may be without a session.
func (p *Profile) SetsSessionTimeout(n *Node) bool {
	return slices.ContainsFunc(p.SLEnv(n), func(v Var) bool { return v.Name == "SWARM_SESSION_TIMEOUT" })
}

// ProgramEnv is the environment of the node's program: the task's, in which the node's own holds.
func (n *Node) ProgramEnv(r RunSwarm) []Var { return over(r.Env, n.UserEnv) }

// Proxies are the variables of the profile that builds have.
func (p *Profile) Proxies() (all []Var) {
	for _, v := range p.Env {
		if slices.Contains([]string{"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"}, strings.ToLower(v.Name)) && v.Value != "" {
			all = append(all, v)
		}
	}
	return all
}

// over returns base with the variables of top, which hold. Each name stands once.
func over(base, top []Var) []Var {
	all := slices.Clone(base)
	for _, v := range top {
		if i := slices.IndexFunc(all, func(x Var) bool { return x.Name == v.Name }); i >= 0 {
			all[i] = v
		} else {
			all = append(all, v)
		}
	}
	return all
}
