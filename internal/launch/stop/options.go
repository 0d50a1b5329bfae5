// Package stop ends what this host runs of a swarm, in both runtimes: gracefully first, so that an SL leaves the swarm, then by
// force; and removes the containers, volumes and networks that swarmd made. What lacks our labels, or has another scope, is
// never touched.
package stop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Options are what the command line says. Without a selector everything is meant.
type Options struct {
	All, APLS, SpireServer, SL, SLPYT, SLTF, SN, SWOP, SWCI bool
	Keep                                                    bool // stop containers, remove nothing
	Sudo                                                    bool
	Help                                                    bool
}

// Usage explains the options.
const Usage = `usage: swarmctl stop [OPTION...], or scripts/stop-swarm [OPTION...]

Stops the components that run on this host, as containers and as processes, then removes their containers, their volumes
(with the state in them) and networks. Without a selector: all of them.

  --all           everything
  --apls          the license server: swarmd needs none, so there is nothing to stop
  --spire-server  SPIRE servers
  --sl            SL nodes with their ML programs
  --sl-pyt        SL nodes with PyTorch programs
  --sl-tf         SL nodes with TensorFlow programs
  --sn            SN nodes
  --swop          SWOP nodes
  --swci          SWCI prompts
  --keep          only stop: leave containers with their logs, volumes and networks
  --sudo          run as root, by sudo; by default when the container engine's socket demands it
  --help          this text
`

// Parse reads the options. Its error is for the user as it stands.
func Parse(args []string) (Options, error) {
	var o Options
	flags := map[string]*bool{"--sudo": &o.Sudo, "--help": &o.Help, "-h": &o.Help}
	for _, f := range o.selectors() {
		flags[f.name] = f.set
	}
	for _, arg := range args {
		set := flags[arg]
		if set == nil {
			return Options{}, fmt.Errorf("Invalid flag: %s\n%s", arg, strings.TrimSpace(Usage)) //nolint:staticcheck // the original's words
		}
		*set = true
	}
	return o, nil
}

// Args are the options as typed, without --sudo.
func (o Options) Args() []string {
	var args []string
	for _, f := range o.selectors() {
		if *f.set {
			args = append(args, f.name)
		}
	}
	return args
}

// selector is an option that says what is to be stopped, or how.
type selector struct {
	name string
	set  *bool
}

func (o *Options) selectors() []selector {
	out := []selector{{"--all", &o.All}, {"--apls", &o.APLS}, {"--" + engine.RoleSpireServer, &o.SpireServer}, {"--sl-pyt", &o.SLPYT}, {"--sl-tf", &o.SLTF}}
	for _, r := range naming.Roles() {
		if !r.Other {
			out = append(out, selector{"--" + r.Name, o.of(r.Name)})
		}
	}
	return append(out, selector{"--keep", &o.Keep})
}

// of is the selector of all components of a role.
func (o *Options) of(role string) *bool {
	switch role {
	case naming.RoleSWCI:
		return &o.SWCI
	case naming.RoleSWOP:
		return &o.SWOP
	case naming.RoleSL:
		return &o.SL
	case naming.RoleSN:
		return &o.SN
	case engine.RoleSpireServer:
		return &o.SpireServer
	}
	return new(bool)
}

// Everything reports whether no part was selected.
func (o Options) Everything() bool {
	return o.All || !(o.APLS || o.SpireServer || o.SL || o.SLPYT || o.SLTF || o.SN || o.SWOP || o.SWCI)
}

// Wants reports whether what has this role and platform is to be stopped. ML programs and probes go with their SL; what has a
// role that this release does not know goes only with everything.
func (o Options) Wants(role, platform string) bool {
	if o.Everything() {
		return role != ""
	}
	if role == engine.RoleML || role == engine.RoleProbe {
		role = naming.RoleSL
	}
	if role == engine.RoleBuild || role == engine.RoleContent || role == engine.RoleMember {
		role = naming.RoleSWOP
	}
	if role == naming.RoleSL && (o.SLPYT && strings.EqualFold(platform, "PYT") || o.SLTF && strings.EqualFold(platform, "TF")) {
		return true
	}
	return *o.of(role)
}

// order is that in which roles are stopped: first who uses, then who is used.
func order() []string {
	out := []string{engine.RoleSpireServer}
	for _, r := range naming.Roles() {
		if !r.Other {
			out = append(out, r.Name)
		}
	}
	slices.Reverse(out)
	return out
}

// title is a role in words.
func title(role string) string {
	switch role {
	case engine.RoleSpireServer:
		return "SPIRE server"
	case engine.RoleML:
		return "ML program"
	case engine.RoleProbe:
		return "probe"
	case engine.RoleBuild:
		return "build"
	case engine.RoleContent:
		return "content"
	case engine.RoleMember:
		return "job member"
	}
	return cmp.Or(naming.RoleOf(role).Title, role)
}

// selected names the selected parts in words, in the order in which they are stopped.
func (o Options) selected() string {
	var names []string
	for _, role := range order() {
		switch {
		case role == naming.RoleSL && !o.SL && (o.SLPYT || o.SLTF):
			if o.SLPYT {
				names = append(names, "PyTorch SL")
			}
			if o.SLTF {
				names = append(names, "TensorFlow SL")
			}
		case o.Wants(role, ""):
			names = append(names, title(role))
		}
	}
	return strings.Join(names, ", ")
}
