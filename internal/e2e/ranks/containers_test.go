package ranks_test

import (
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestRanksInContainers: rank 0 beside its SL and rank 1 on a host are containers, and come to one model. When the SL is killed, and started again, or one of
// them is killed, both are started again. The peers see that the SL's container was opened for that.
func TestRanksInContainers(t *testing.T) {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	enginetest.NeedImage(t, e, engine.ImagePYT, "scripts/images pyt")
	w := &ofSLs{swarm: withoutSLs(t, 2)}
	env := []string{"DOCKER_HOST=" + os.Getenv("DOCKER_HOST"), "SWARM_SCOPE=" + scope}
	w.swop(1, "folders: {data: "+w.data+"/0}\nlimits:\n  networks: [host]\nsentences:\n"+
		"- Allow spiffe://swarm.learning/swarm/sl to use host where all {task.type='RUN_JOB', image.reference='"+engine.ImagePYT+"'}\n", env, "--ml-runtime", "docker")
	w.swops[0].Sees("Ready for Task Execution!")
	args := append(w.args(1, w.digits()),
		"--data-dir", w.data+"/0", "--expected-peers=1", "--env=MIN_PEERS=1", "--env=MAX_EPOCHS=15", "--ml-runtime=docker", "--ml-network=host",
		"--ranks=2", "--restarts=1", "--rank-image="+engine.ImagePYT, "--rank-volume=data:/data", "--rank-env=DATA_DIR=/data", "--rank-env=MIN_PEERS=1", "--rank-env=MAX_EPOCHS=15")
	killed := e2etest.Start(t, "sl-1, killed", w.Dir, env, args...)
	killed.Sees("round 1: ")
	killed.Kill()
	peer := e2etest.Start(t, "sl-1", w.Dir, env, args...)
	peer.Sees("ending the ranks of a start before", "removing a container of this node's previous run", "round ")
	own, err := e.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+scope), filters.Arg("label", engine.LabelNode+"=sl-1"))})
	if err != nil || len(own) != 1 {
		t.Fatalf("containers of rank 0: %v, %v", own, err)
	}
	if err := e.ContainerKill(t.Context(), own[0].ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	peer.Ends(limit)
	peer.Sees("all are started again restart=1 of=1")
	said := w.swarmctl("get", "logs", "sl-1-ranks")
	if strings.Contains(said, "/rank/0: ") || !strings.Contains(said, "swop-1/rank/1: ") {
		t.Errorf("lines of rank 1:\n%s", said)
	}
	all := results(t, peer.Output()+said, 2)
	if all[0] != all[1] {
		t.Errorf("rank 0 ends with %v, rank 1 with %v", all[0], all[1])
	}
	if out := w.swarmctl("get", "contract", "status", "digits"); !strings.Contains(out, "container, open: network host") {
		t.Errorf("what the peers see:\n%s", out)
	}
	w.Until("nothing to be left", func() bool { return len(enginetest.Left(t, e, scope)) == 0 })
	if err := os.Remove(w.Path("sl1/bridge-slots")); err != nil { // the node keeps it for its program's next container: nothing is in it
		t.Error(err)
	}
	w.stop()
}
