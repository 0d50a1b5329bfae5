package cmdline

import (
	"fmt"
	"slices"
	"strings"
)

// Original is an option that the original's start scripts have, options of `docker container create` among them, and that no command
// here has: it changes nothing and that is said once, or it is refused with what to use instead.
type Original struct {
	Names []string // without dashes; the first is the usual one
	Bool  bool     // takes no value
	May   []string // of a Bool: words that are its value all the same, as the original's script takes none and the engine's command one
	Says  string   // why it changes nothing; empty: it is refused
	Use   string   // what to do instead
	Of    []string // the commands that have it; nil: all start commands
}

// What is said of groups of options.
const (
	noLicence = "no licence is needed"
	unlimited = "limit a component's container with docker update, and the program's with --ml-memory, --ml-cpus and --ml-pids"
	forMLOnly = "the component needs none; the program's container has the option with --ml- before its name"
	alreadyIs = "the engine's default holds"
	oneBeside = "an SL starts one program beside it, with --ml-image, --ml-cmd and the other --ml options"
	mountIt   = "mount paths and volumes with -v"
	ownImage  = "the component's container runs swarmd, of --image"
	noPull    = "no image is pulled: docker pull fetches one"
	noHealth  = "swarmd health tells a node's health"
	ownLogs   = "the engine's default log driver is read; set another in the engine's configuration"
)

// originals are all such options. What docker container create knows is that of its release 28.
var originals = []Original{
	{Names: []string{"apls-ip", "primary-apls-ip"}, Says: noLicence},
	{Names: []string{"apls-port", "primary-apls-port"}, Says: noLicence},
	{Names: []string{"secondary-apls-ip"}, Says: noLicence},
	{Names: []string{"secondary-apls-port"}, Says: noLicence},
	{Names: []string{"apls-docker-name"}, Says: noLicence},
	{Names: []string{"apls-pdf"}, Says: noLicence},

	{Names: []string{"sentinel-api-port"}, Says: "SNs join at the Sentinel's file server: --sentinel-fs-port says its port, if that is not 30305", Of: []string{"run-sn"}},
	{Names: []string{"sn-docker-name"}, Says: "--sn-ip alone says where the SN is; in a network of the engine a container's name will do", Of: []string{"run-sl"}},
	{Names: []string{"ml-it", "ml-ti"}, Bool: true, Says: "the program has no terminal; its output is in the SL's", Of: []string{"run-sl"}},
	{Names: []string{"ml-i", "ml-interactive"}, Bool: true, Says: "the program has no standard input", Of: []string{"run-sl"}},
	{Names: []string{"ml-t", "ml-tty"}, Bool: true, Says: "the program has no terminal; its output is in the SL's", Of: []string{"run-sl"}},
	{Names: []string{"ml-d", "ml-detach"}, Bool: true, Says: "the program always runs beside its SL", Of: []string{"run-sl"}},
	{Names: []string{"ml-rm"}, Bool: true, Says: "the program's container is always removed", Of: []string{"run-sl"}},

	{Names: []string{"cmd"}, Use: ownImage},
	{Names: []string{"entrypoint"}, Use: ownImage + "; for the program there is --ml-entrypoint"},
	{Names: []string{"pid-main"}, Bool: true, Use: "the program shares no processes with its SL: leave it out"},
	{Names: []string{"volumes-from-main"}, Bool: true, Use: "the program shares nothing with its SL but the bridge: leave it out"},
	{Names: []string{"sidecar"}, Use: oneBeside},

	{Names: []string{"privileged"}, Bool: true, Use: forMLOnly},
	{Names: []string{"cap-add"}, Use: forMLOnly},
	{Names: []string{"device"}, Use: forMLOnly},
	{Names: []string{"group-add"}, Use: forMLOnly},
	{Names: []string{"ipc"}, Use: forMLOnly},
	{Names: []string{"shm-size"}, Use: forMLOnly},
	{Names: []string{"gpus"}, Use: "the component uses no GPU; the program's are named by run-sl --gpu"},
	{Names: []string{"device-cgroup-rule"}, Use: "the component needs no device: leave it out"},
	{Names: []string{"pid"}, Use: "the component shares no processes: leave it out"},
	{Names: []string{"uts"}, Use: "the component shares no host name: leave it out, or give --hostname"},
	{Names: []string{"userns"}, Use: "set user namespaces in the engine's configuration"},
	{Names: []string{"cgroupns"}, Use: "leave it out: " + alreadyIs},
	{Names: []string{"cgroup-parent"}, Use: "leave it out: " + alreadyIs},
	{Names: []string{"isolation"}, Use: "leave it out: it is for Windows"},

	{Names: []string{"memory", "m"}, Use: unlimited},
	{Names: []string{"memory-reservation"}, Use: unlimited},
	{Names: []string{"memory-swap"}, Use: unlimited},
	{Names: []string{"memory-swappiness"}, Use: unlimited},
	{Names: []string{"kernel-memory"}, Use: unlimited},
	{Names: []string{"cpus"}, Use: unlimited},
	{Names: []string{"cpu-count"}, Use: unlimited},
	{Names: []string{"cpu-percent"}, Use: unlimited},
	{Names: []string{"cpu-period"}, Use: unlimited},
	{Names: []string{"cpu-quota"}, Use: unlimited},
	{Names: []string{"cpu-rt-period"}, Use: unlimited},
	{Names: []string{"cpu-rt-runtime"}, Use: unlimited},
	{Names: []string{"cpu-shares", "c"}, Use: unlimited},
	{Names: []string{"cpuset-cpus"}, Use: unlimited},
	{Names: []string{"cpuset-mems"}, Use: unlimited},
	{Names: []string{"pids-limit"}, Use: unlimited},
	{Names: []string{"ulimit"}, Use: unlimited},
	{Names: []string{"blkio-weight"}, Use: unlimited},
	{Names: []string{"blkio-weight-device"}, Use: unlimited},
	{Names: []string{"device-read-bps"}, Use: unlimited},
	{Names: []string{"device-read-iops"}, Use: unlimited},
	{Names: []string{"device-write-bps"}, Use: unlimited},
	{Names: []string{"device-write-iops"}, Use: unlimited},
	{Names: []string{"io-maxbandwidth"}, Use: unlimited},
	{Names: []string{"io-maxiops"}, Use: unlimited},
	{Names: []string{"storage-opt"}, Use: unlimited},
	{Names: []string{"oom-kill-disable"}, Bool: true, Use: unlimited},
	{Names: []string{"oom-score-adj"}, Use: unlimited},
	{Names: []string{"sysctl"}, Use: unlimited},

	{Names: []string{"mount"}, Use: mountIt},
	{Names: []string{"tmpfs"}, Use: mountIt},
	{Names: []string{"volumes-from"}, Use: mountIt},
	{Names: []string{"volume-driver"}, Use: mountIt},
	{Names: []string{"env-file"}, Use: "give each variable with -e, or options in a file with --config-file"},
	{Names: []string{"label-file"}, Use: "give each label with -l"},
	{Names: []string{"annotation"}, Use: "give labels with -l"},
	{Names: []string{"expose"}, Use: "publish ports with -p"},
	{Names: []string{"publish-all", "P"}, Bool: true, Use: "ports are published by the rule of --host-ip, or with -p"},
	{Names: []string{"link"}, Use: "give the containers one --network, in which they find each other by name"},
	{Names: []string{"link-local-ip"}, Use: "give --ip, or leave it out"},
	{Names: []string{"ip6"}, Use: "give --ip, or leave it out"},
	{Names: []string{"network-alias", "net-alias"}, Use: "give --hostname: other containers of the network find it by its name"},
	{Names: []string{"add-host"}, Use: "name hosts in a DNS server of --dns, or give addresses"},
	{Names: []string{"dns-search"}, Use: "give full names of hosts"},
	{Names: []string{"dns-option", "dns-opt"}, Use: "leave it out: " + alreadyIs},
	{Names: []string{"domainname"}, Use: "give it with --hostname"},
	{Names: []string{"mac-address"}, Use: "leave it out: " + alreadyIs},
	{Names: []string{"log-driver"}, Use: ownLogs},
	{Names: []string{"log-opt"}, Use: ownLogs},
	{Names: []string{"cidfile"}, Use: "with -d the container's ID is printed"},
	{Names: []string{"attach", "a"}, Use: "without -d the output is shown; on run-sl --attach starts no program"},
	{Names: []string{"platform"}, Use: "leave it out: the image is that of this machine"},
	{Names: []string{"use-api-socket"}, Bool: true, Use: "an SL that starts its program in a container has the engine's socket already: leave it out"},
	{Names: []string{"stop-signal"}, Says: "swarmd ends at SIGTERM"},
	{Names: []string{"stop-timeout"}, Says: "stop-swarm waits until a node has left the swarm"},
	{Names: []string{"read-only"}, Bool: true, Says: "the container's root is read-only"},
	{Names: []string{"cap-drop"}, Says: "the container has no capability but those that an SL needs for its program's files"},
	{Names: []string{"init"}, Bool: true, Says: "swarmd ends its own processes"},
	{Names: []string{"pull"}, Bool: true, May: []string{"always", "missing", "never"}, Says: noPull},
	{Names: []string{"quiet", "q"}, Bool: true, Says: noPull},
	{Names: []string{"disable-content-trust"}, Bool: true, Says: noPull},
	{Names: []string{"no-healthcheck"}, Bool: true, Says: noHealth},
	{Names: []string{"health-cmd"}, Says: noHealth},
	{Names: []string{"health-interval"}, Says: noHealth},
	{Names: []string{"health-retries"}, Says: noHealth},
	{Names: []string{"health-start-interval"}, Says: noHealth},
	{Names: []string{"health-start-period"}, Says: noHealth},
	{Names: []string{"health-timeout"}, Says: noHealth},
}

// Originals are the options of the original that a start command knows beside its own, which flags has; by all their names.
func Originals(command string, flags Table) map[string]Original {
	known := map[string]Original{}
	for _, o := range originals {
		if o.Of != nil && !slices.Contains(o.Of, command) {
			continue
		}
		for _, n := range o.Names {
			if _, own := flags[n]; !own {
				known[n] = o
			}
		}
	}
	return known
}

// Without takes the options of the original out of a line and returns what is to be said of each, once. The first that is refused is
// an error.
func (l *Line) Without(known map[string]Original) (says []string, err error) {
	var rest []Option
	for _, o := range l.Options {
		original, ok := known[o.Name]
		switch {
		case !ok:
			rest = append(rest, o)
			continue
		case !original.Bool && !o.Given:
			return nil, fmt.Errorf("%s: missing argument", o.Typed)
		}
		text, err := original.Said(o.Typed)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(says, text) {
			says = append(says, text)
		}
	}
	l.Options = rest
	return says, nil
}

// Said is what is to be said of the option as it was typed. One that is refused is an error.
func (o Original) Said(typed string) (string, error) {
	if o.Says == "" {
		return "", fmt.Errorf("%s is not taken here: %s", typed, o.Use)
	}
	return fmt.Sprintf("%s changes nothing: %s", typed, o.Says), nil
}

// Add makes a table with the options of the original too, so that a line is taken apart rightly.
func (t Table) Add(known map[string]Original) Table {
	all := Table{}
	for n, o := range known {
		all[n] = Known{Name: o.Names[0], Bool: o.Bool, May: o.May}
	}
	for n, k := range t {
		all[n] = k
	}
	return all
}

// Inert lists the options of the original that change nothing for a command, for its help: the first names, sorted.
func Inert(known map[string]Original) []string {
	var names []string
	for n, o := range known {
		if o.Says != "" && n == o.Names[0] && !strings.HasPrefix(n, "health-") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
