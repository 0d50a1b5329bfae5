package engine

import "os"

// Labels of everything that swarmd makes at an engine: containers, volumes, networks. What has no LabelRole is not ours and
// is never touched.
const (
	LabelRole     = "io.swarmd.role"     // one of the Role constants
	LabelScope    = "io.swarmd.scope"    // see Scope
	LabelNode     = "io.swarmd.node"     // name of the node that it belongs to
	LabelPlatform = "io.swarmd.platform" // PYT or TF, of SL nodes and ML programs
	LabelSwarmd   = "io.swarmd.version"  // version of the swarmd that made it
	LabelLife     = "io.swarmd.life"     // random, of one life of an ML program: names its record in the state directory
)

// Roles of containers, volumes and networks, the values of LabelRole.
const (
	RoleSN          = "sn"
	RoleSL          = "sl"
	RoleSWOP        = "swop"
	RoleSWCI        = "swci"
	RoleSpireServer = "spire-server"
	RoleML          = "ml"    // an ML program
	RoleProbe       = "probe" // a check that lasts a second
)

// DefaultScope is the scope of everything unless SWARM_SCOPE says otherwise.
const DefaultScope = "default"

// Scope divides what stands at one engine and on one host: stop-swarm and reconciliation see only their own scope, so that
// several teams, or tests, can share a machine.
func Scope(getenv func(string) string) string {
	if s := getenv("SWARM_SCOPE"); s != "" {
		return s
	}
	return DefaultScope
}

// OSScope is Scope of this process's environment.
func OSScope() string { return Scope(os.Getenv) }

// Images that `make image` builds.
const (
	ImageSwarmd = "swarmd:latest"       // all components; SWARM_IMAGE names another
	ImagePYT    = "swarm-ml-pyt:latest" // ML programs on PyTorch
	ImageTF     = "swarm-ml-tf:latest"  // ML programs on TensorFlow
)

// Paths inside containers, as programs for the original know them.
const (
	DataDir   = "/platform/swarmml/data"   // read-only
	ModelDir  = "/platform/swarmml/model"  // read-write; working directory
	BridgeDir = "/platform/swarmml/bridge" // socket and weight files
	SpillDir  = "/platform/swarmml/spill"  // weight files that the bridge directory's file system has no room for
	StateHome = "/var/lib/swarmd"          // of a component: <StateHome>/<name> is its state directory
)
