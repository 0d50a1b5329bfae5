package start

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hostNetwork is what engines call the network of their host.
const hostNetwork = "host"

// Frameworks of which an SL starts ranks.
const pytorch, horovod = "pytorch", "horovod"

// RankOptions are how an SL starts several ranks as its program.
type RankOptions struct {
	Ranks     int      `option:"ranks"`     // with the one that the SL runs itself; 0: it has one program
	Framework string   `option:"framework"` // "": pytorch
	Restarts  int      `option:"restarts"`
	RankHosts []string `option:"rank-host"` // "": all that take jobs
	RankPort  Port     `option:"rank-port"` // 0: one that is free
	RankImage string   `option:"rank-image"`
	RankEnv   []string `option:"rank-env"` // K=V
	// RankVolumes and RankResources are those of each rank on a host, as job files have them.
	RankVolumes   []string `option:"rank-volume"`    // NAME:/path[:rw]
	RankResources []string `option:"rank-resources"` // cpu=2
}

// given reports whether an option for several ranks is.
func (o *RankOptions) given() bool {
	lists := slices.Concat(o.RankHosts, o.RankEnv, o.RankVolumes, o.RankResources)
	return o.Framework != "" || o.Restarts != 0 || o.RankPort != 0 || o.RankImage != "" || len(lists) > 0
}

// checkRanks finds what is wrong with ranks beside a program that runs in a runtime.
func (o *SL) checkRanks(runtime string) error {
	switch {
	case o.Ranks == 0 && o.given():
		return errors.New("--framework, --restarts and --rank-… are for several ranks: say how many with --ranks")
	case o.Ranks == 0:
		return nil
	case o.Attach:
		return errors.New("--ranks: --attach starts no program: whoever starts one by hand starts its ranks too; leave out one of the two")
	case !strings.EqualFold(o.Framework, pytorch) && !strings.EqualFold(o.Framework, horovod) && o.Framework != "":
		return fmt.Errorf("--framework %s: an SL starts ranks of pytorch and horovod; others start theirs, beside --attach", o.Framework)
	case o.Ranks < 2 || o.Ranks > 1024:
		return fmt.Errorf("--ranks %d: want 2 to 1024, with the one that this node runs itself", o.Ranks)
	case o.Restarts < 0 || o.Restarts > 100:
		return fmt.Errorf("--restarts %d: want 0 to 100", o.Restarts)
	case runtime != Process && (o.ML.Cmd != nil || o.ML.Entrypoint != nil):
		return errors.New("--ranks: all ranks run --model-program: leave out --ml-cmd and --ml-entrypoint, which stand in its place for one of them")
	case runtime != Process && o.ML.Network != hostNetwork:
		return errors.New("--ranks: rank 0 runs in a container, where the other ranks reach it in this host's own network alone: allow that with --ml-network host, which all peers see, or give --ml-runtime process")
	case len(o.RankVolumes) > 0 && o.RankImage == "":
		return errors.New("--rank-volume: the other ranks are processes, which see what their hosts' users may read: leave it out, or have them run in containers with --rank-image")
	}
	return checkEnv("rank-env", o.RankEnv)
}

// CheckRanksPlace refuses ranks of an SL that is in a container: it sees neither which ports of the host are free, nor the interface of its address, and the
// other ranks do not reach a program that is in there with it.
func CheckRanksPlace(o *SL) error {
	if o.Ranks == 0 {
		return nil
	}
	return errors.New("--ranks: in a container of its own this node can't see which port of the host rank 0 may have: start it on the host itself, with --runtime process")
}
