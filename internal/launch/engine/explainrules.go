package engine

import "regexp"

// rule knows an engine's message. The first that matches a cleaned text counts.
type rule struct {
	pattern *regexp.Regexp
	say     string // replaces what matched, may quote groups ($1); "": the engine's words stand
	help    string // likewise may quote groups
	stays   string // see [Error]; "": it may pass, or is no matter of reaching the engine
}

func match(pattern, say, help string) rule {
	return rule{pattern: regexp.MustCompile(`(?i)` + pattern), say: say, help: help}
}

// lasting is the rule of what does not pass by itself.
func (r rule) lasting(why string) rule {
	r.stays = why
	return r
}

// Why an engine is not reached before something is corrected.
const (
	wrongHost    = "DOCKER_HOST is wrong there"
	wrongVersion = "the engine is of another version than is asked for"
)

// rules hold the messages of Docker 20.10 to 28 and of Podman 4, the special before the general.
var rules = []rule{
	// Reaching the engine.
	match(`permission denied while trying to connect to the Docker daemon socket at (?:unix://)?(\S+?):? .*`, "no permission to use the engine's socket $1",
		"add --sudo, or let your user use it: sudo usermod -aG docker USER, then log in again").lasting("it has no permission to use the engine"),
	match(`Cannot connect to the Docker daemon at (unix://\S*podman\S*)\. Is the docker daemon running\?`, "no container engine at $1",
		"start Podman's service (systemctl start podman.socket), or name another socket with DOCKER_HOST"),
	match(`Cannot connect to the Docker daemon at (unix://\S+)\. Is the docker daemon running\?`, "no container engine at $1",
		"start the engine (systemctl start docker), or name its socket with DOCKER_HOST"),
	match(`Cannot connect to the Docker daemon at (\S+)\. Is the docker daemon running\?`, "no container engine at $1",
		"start it, or correct DOCKER_HOST"),
	match(`error during connect: .*no such host`, "", "correct the host in DOCKER_HOST"),
	match(`connect to a TLS-enabled daemon without TLS|HTTP request to an HTTPS server|server probably has client authentication`, "",
		"set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or correct DOCKER_HOST").lasting("the engine wants TLS, or none"),
	match(`client version \S+ is too new|requires API version \S+, but the Docker daemon API version is`, "",
		"update the engine (Docker 20.10 or later), and unset DOCKER_API_VERSION if it is set").lasting(wrongVersion),
	match(`client version \S+ is too old`, "", "unset DOCKER_API_VERSION: the engine is newer than what it demands").lasting(wrongVersion),

	// Images and programs.
	match(`No such image: (?:(?:docker\.io/library|localhost)/)?((?:swarmd|swarm-ml-\w+)(?::[\w.-]+)?)(?:: image not known)?`, "image $1 is not at the engine",
		"build it with make image, or load it with docker load"),
	match(`No such image: (?:docker\.io/library/)?(\S+?)(?:: image not known)?$`, "image $1 is not at the engine",
		"fetch it (docker pull $1), load it (docker load), or name another"),
	match(`pull access denied|manifest unknown|lookup \S+ on \S+ no such host`, "", "build the image (make image), load it (docker load), or correct its name"),
	match(`exec: "?(?:docker-init|docker-tini)"?: executable file not found|container-init binary not found|exec .*catatonit`, "",
		"install the engine's init (docker-init, which is tini; with Podman catatonit)"),
	match(`exec: "([^"]+)": (?:executable file not found|stat .*no such file)`, "", "the image has no program $1: correct the entrypoint or choose another image"),
	match(`exec: "([^"]+)": permission denied`, "", "make $1 executable, or name its interpreter as the entrypoint"),
	match(`unable to find (?:user|group) \S+: no matching entries`, "", "give the user or the group as a number"),

	// Names.
	match(`(?:Conflict\. |creating container storage: )?The container name "/?([^"]+)" is already in use by (?:container )?"?([0-9a-f]{12})[0-9a-f]*"?.*`,
		"the name $1 is in use by container $2", "choose another --name, or remove that container: docker rm -f $1, or stop-swarm for all that swarmd runs"),
	match(`Invalid container name|names must match \[a-zA-Z0-9\]`, "", "choose a --name of letters, digits, _, . and -"),
	match(`network with name (\S+) already exists`, "", "choose another name, or remove it: docker network rm $1"),

	// Networks and ports.
	match(taken, "",
		"port $2 is in use: stop what listens there (ss -ltnp, docker ps), or choose another"),
	match(`(?:listen (?:tcp|udp)[46]? )?(\S+)(?::\d+)?: bind: cannot assign requested address`, "", "publish at an address that this host has"),
	match(`unable to find network with name or ID ([^\s:]+).*`, "network $1 does not exist", "create it (docker network create $1), or correct --network"),
	match(`network ([^\s:]+) not found`, "network $1 does not exist", "create it (docker network create $1), or correct --network"),
	match(`network (\S+) id \S+ has active endpoints|"(\S+)" has associated containers with it`, "", "stop the containers in it first"),
	match(`could not find bridge (\S+):`, "", "restart the engine: somebody removed its bridge $1"),
	match(`iptables failed|No chain/target/match by that name`, "", "restart the engine: somebody removed its firewall rules"),

	// Mounts and volumes.
	match(`invalid mount config for type "bind": bind source path does not exist: (\S+)`, "mount source $1 does not exist", "create it, or correct the option that names it"),
	match(`statfs (\S+): no such file or directory`, "mount source $1 does not exist", "create it, or correct the option that names it"),
	match(`Are you trying to mount a directory onto a file`, "", "mount a file onto a file and a directory onto a directory"),
	match(`includes invalid characters for a local volume name`, "", "give a host directory as an absolute path"),
	match(`remove (\S+): volume is in use - \[([^\]]*)\]`, "volume $1 is in use by container $2", "remove its containers first: docker ps -a --filter volume=$1"),
	match(`volume (\S+) is being used by the following container\(s\): ([0-9a-f]{12})[0-9a-f]*.*`, "volume $1 is in use by container $2",
		"remove its containers first: docker ps -a --filter volume=$1"),
	match(`no space left on device|disk quota exceeded`, "", "free some space: docker system df shows what uses it, docker system prune removes what nobody does"),

	// Devices and limits.
	match(`could not select device driver "[^"]*" with capabilities: \[\[gpu\b`, "",
		"the engine has no GPU driver: install the NVIDIA container toolkit and restart the engine, or leave --gpu out"),
	match(`driver/library version mismatch`, "", "the NVIDIA driver was updated while its old module runs: restart the machine, or reload the nvidia module"),
	match(`nvml error: driver not loaded|NVIDIA-SMI has failed`, "", "load the NVIDIA driver (modprobe nvidia), or install it"),
	match(`nvidia-container-cli: device error: (\S+) unknown device`, "", "choose GPUs that nvidia-smi -L lists"),
	match(`error gathering device information while adding custom device "([^"]+)"`, "", "load the driver that makes $1, or leave that device out"),
	match(`Minimum memory limit allowed is (\S+)`, "", "raise the memory limit to $1 at least"),
	match(`Range of CPUs is from`, "", "choose a CPU limit within that range"),
	match(`error setting rlimit type`, "", "the engine may not raise its limits: lower default_ulimits (Podman: containers.conf; Docker: daemon.json)"),
	match(`Unknown runtime specified (\S+)`, "", "correct the engine's runtimes (daemon.json)"),

	// Containers that change meanwhile.
	match(`removal of container \S+ is already in progress|is marked for removal`, "", "wait until the engine has removed it, then try again"),
	match(`No such container: (\S+)|no container with name or ID "?([^"\s]+)"? found.*`, "", "somebody removed it: start it anew"),
}
