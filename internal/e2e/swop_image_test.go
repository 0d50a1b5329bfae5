package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// owned starts a SWOP without SLs, with a policy and more options. It may be started again.
func (w *swarm) owned(policy string, more ...string) *e2etest.Proc {
	w.T.Helper()
	return w.ownedWith(nil, policy, more...)
}

// ownedWith is owned with variables of the SWOP's environment.
func (w *swarm) ownedWith(env []string, policy string, more ...string) *e2etest.Proc {
	w.T.Helper()
	dir := w.Path("usr")
	profile := fmt.Sprintf("groupname: g\ntaskrunner: %s\npolicyuri: policy.yaml\nnetwork: none\nresourcemgr:\napls:\napisrv:\n  locator: {host: %s, port: null, service: null}\nenvvars: null\n"+
		"nodes:\n  - slnodedef: {idx: 0, identity: null, slhostname: null, usrhostname: null, privatedata: null, slenvvars: null, usrenvvars: null}\n", task.DefaultTaskrunner, w.Addr(1))
	if err := errorOf(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "profile.yaml"), []byte(profile), 0o600), os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600)); err != nil {
		w.T.Fatal(err)
	}
	p := e2etest.Start(w.T, "swop", w.Dir, append(env, "DOCKER_HOST="+os.Getenv("DOCKER_HOST"), "SWARM_SCOPE="+os.Getenv("SWARM_SCOPE")), slices.Concat([]string{
		"swarmd", "run-swop", "--name", "swop", "--host-ip", w.Addr(21), "--usr-dir", dir, "--profile-file-name", "profile.yaml", "--state-dir", w.Path("swop"),
	}, more, w.Identity("swop", 1))...)
	p.Sees("Ready for Task Execution!")
	return p
}

// TestTheHostFetchesWhatItsOwnerWasShown: a host whose owner wants to be asked about one image tells its digest. While somebody is asked the
// registry's tag moves, and the SWOP is killed; what was approved is fetched. The image that the tag stands for by then is refused.
func TestTheHostFetchesWhatItsOwnerWasShown(t *testing.T) {
	e, registry := enginetest.Engine(t), enginetest.NewRegistry(t)
	w := newSwarm(t)
	w.namedAuthority("bob", "/swarm/swci/bob", 0)
	w.SN(1).Sees(apiMarker)
	good := registry.Digest
	policy := "ask: true\napprovers: [spiffe://swarm.learning/swarm/swci/bob]\nsentences:\n- Allow spiffe://swarm.learning/swarm/swci to use host where image.digest='" + good + "'\n"
	swop := w.owned(policy)

	op, bob := client.Tasks{By: client.Operator{Client: w.client(identity.RoleSWCI, nil)}}, client.Tasks{By: client.Operator{Client: w.clientAs(w.sourceOf("bob"), nil)}}
	outcome := "outcome-" + strings.ReplaceAll(registry.Address, ":", "-")
	t.Cleanup(func() {
		for _, name := range []string{outcome, registry.Address + "/org/image@" + good} {
			_, _ = e.ImageRemove(context.Background(), name, image.RemoveOptions{}) // it may not be there
		}
	})
	_, err := op.CreateTask(t.Context(), &swarmv1.CreateTaskRequest{Name: "fetch", Type: task.PullImage, Author: "me", Prereq: task.Root, Outcome: outcome})
	if err == nil {
		_, err = op.EditTask(t.Context(), "fetch", 1, fmt.Sprintf("OrgAndReg : %s/org\nRepoName : image\nTag : '%s'\nAuth : null\n", registry.Address, registry.Tag))
	}
	if err != nil {
		t.Fatal(err)
	}
	final, err := op.FinaliseTask(t.Context(), "fetch", "")
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour).UnixMilli()
	assigned := func(ready func(m *swarmv1.AssignmentMember) bool) *swarmv1.Assignment {
		t.Helper()
		a, err := op.AssignTask(t.Context(), &swarmv1.AssignTaskRequest{
			Task: "fetch", Digest: final.GetDigest(), Taskrunner: task.DefaultTaskrunner, ExpiresUnixMs: expires, Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: 1, Least: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Until("the host's answer", func() bool {
			if a, err = op.GetAssignment(t.Context(), a.GetId()); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(a.GetMembers(), ready)
		})
		return a
	}

	shown := fmt.Sprintf("waits for approval: swarmctl approve task fetch on swop; image %s (%s/org/image:%s)", good, registry.Address, registry.Tag)
	a := assigned(func(m *swarmv1.AssignmentMember) bool { return m.GetText() == shown })
	registry.Move(t)
	swop.Kill()
	swop = w.owned(policy)
	if _, err := bob.ApproveTask(t.Context(), &swarmv1.ApproveTaskRequest{Part: &swarmv1.PartOfHost{
		Assignment: a.GetId(), Task: "fetch", Digest: final.GetDigest(), Taskrunner: task.DefaultTaskrunner, Host: "swop", ExpiresUnixMs: expires,
	}}); err != nil {
		t.Fatal(err)
	}
	if over := w.until(op, a.GetId(), "over"); over.GetVerdict() != "succeeded" {
		t.Fatalf("the assignment: %v", over)
	}
	got, err := e.ImageInspect(t.Context(), outcome)
	if err != nil || !slices.Equal(got.RepoDigests, []string{registry.Address + "/org/image@" + good}) {
		t.Errorf("fetched: %v, %v", got.RepoDigests, err)
	}

	assigned(func(m *swarmv1.AssignmentMember) bool {
		return m.GetState() == "refused" && strings.Contains(m.GetText(), "image.digest is '"+registry.Digest+"', not ")
	})
	swop.Stop()
}
