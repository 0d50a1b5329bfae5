package engine

import (
	"context"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
)

// Labels of everything that swarmd makes at an engine: containers, volumes, networks. What has no LabelRole is not ours and
// is never touched; nor is a container that has it from its image, see Inherited.
const (
	LabelRole        = "io.swarmd.role"     // one of the Role constants
	LabelScope       = "io.swarmd.scope"    // see Scope
	LabelNode        = "io.swarmd.node"     // name of the node that it belongs to
	LabelPlatform    = "io.swarmd.platform" // PYT or TF, of SL nodes and ML programs
	LabelSwarmd      = "io.swarmd.version"  // version of the swarmd that made it
	LabelIncarnation = "io.swarmd.life"     // random, of one incarnation of an ML program: names its record in the state directory

	// Those of what a host runs for an assignment of the swarm.
	LabelSwarm      = "io.swarmd.swarm"      // the swarm's ID
	LabelHost       = "io.swarmd.host"       // name of the node that started it
	LabelAssignment = "io.swarmd.assignment" // ID
	LabelEpoch      = "io.swarmd.epoch"
	LabelMember     = "io.swarmd.member" // index
	LabelTask       = "io.swarmd.task"   // digest of the task that made an image or a volume
	LabelBuild      = "io.swarmd.build"  // whose build an image or a container is a step of, see internal/work/build; empty in what has been built
	LabelFills      = "io.swarmd.fills"  // of an image without a name: the volume that a task has not filled to its end yet, see internal/work/volume
	LabelReady      = "io.swarmd.ready"  // how a member of a job is asked whether it is ready, see internal/work/runjob
	LabelGPUs       = "io.swarmd.gpus"   // those that a member of a job alone has, with commas between
	LabelNamed      = "io.swarmd.named"  // what the other members of a job call one, by its rank
	LabelHolds      = "io.swarmd.holds"  // address: the container has no program, and holds the address of a member of a job until that starts
	LabelLeadsOut   = "io.swarmd.out"    // yes: the network that a member of a job is in, which hosts share, leads elsewhere
	LabelParts      = "io.swarmd.parts"  // how many containers with all these labels the member has when it has started
)

// Roles of containers, volumes and networks beside those of nodes, the values of LabelRole.
const (
	RoleSpireServer = "spire-server"
	RoleML          = "ml"      // an ML program
	RoleProbe       = "probe"   // a check that lasts a second
	RoleBuild       = "build"   // has a volume open for a build; never started
	RoleContent     = "content" // the same for what fills it
	RoleMember      = "member"  // of a job: its container, and the network that members share
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

// Inherited reports whether a container has our labels from its image alone, so that it is somebody else's: anybody may build
// an image with them, and docker commit makes one of a container of ours. It takes the container's labels and the ID of its
// image. An ML program's container has a LabelIncarnation of its own, whatever its image says.
func (e *Engine) Inherited(ctx context.Context, labels map[string]string, image string) (bool, error) {
	found, err := e.ImageInspect(ctx, image)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil // an image that was removed tells nothing any more
	case err != nil:
		return false, Explain(fmt.Errorf("look at image %s: %w", image, err))
	case found.Config == nil:
		return false, nil
	}
	own := found.Config.Labels
	return own[LabelRole] != "" && own[LabelIncarnation] == labels[LabelIncarnation], nil
}

// ShortID is the ID of a container as engines show it.
func ShortID(id string) string { return id[:min(len(id), 12)] }

// Images that `make image` builds.
const (
	ImageSwarmd = "swarmd:latest"       // all components; SWARM_IMAGE names another
	ImagePYT    = "swarm-ml-pyt:latest" // ML programs on PyTorch
	ImageTF     = "swarm-ml-tf:latest"  // ML programs on TensorFlow, with Keras 3
	// ImageTFLegacy is for ML programs on Keras 2, which --ml-image chooses; `scripts/images tf-legacy` builds it.
	ImageTFLegacy = "swarm-ml-tf-legacy:latest"
)

// Paths inside containers, as programs for the original know them.
const (
	DataDir   = "/platform/swarmml/data"   // read-only
	ModelDir  = "/platform/swarmml/model"  // read-write; working directory
	BridgeDir = "/platform/swarmml/bridge" // socket and weight files
	SpillDir  = "/platform/swarmml/spill"  // weight files that the bridge directory's file system has no room for
	StateHome = "/var/lib/swarmd"          // of a component: <StateHome>/<name> is its state directory
)
