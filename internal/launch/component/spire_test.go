package component_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// swarmd is a component of the real image.
func (b *bench) swarmd(role, node, network string, args ...string) component.Spec {
	return component.Spec{
		Options: component.Options{Name: b.scope + "-" + node, Network: network, Attach: true}, Role: role, Node: node, Scope: b.scope,
		Args: append(args, "--runtime", "process"),
	}
}

// sn is a Sentinel whose agent is to get a generated token.
func (b *bench) sn(node, network, hostIP string, given map[string]string) component.Spec {
	b.t.Helper()
	given["gen-join-token"] = "true"
	agent, err := spire.ParseAgent(given, "/nowhere")
	if err != nil {
		b.t.Fatal(err)
	}
	agent.NodeName = node
	s := b.swarmd(naming.RoleSN, node, network, "run-sn", "--name", node, "--host-ip", hostIP, "--sentinel-ip", hostIP, "-genJoinToken")
	s.Agent = agent
	return s
}

const snReady = "Starting SWARM-API-SERVER on port"

// TestSpire runs a SPIRE server and SNs, each in a container, which get their identities by generated tokens.
func TestSpire(t *testing.T) {
	b := newBench(t)
	enginetest.NeedImage(t, b.engine, image(), "scripts/images swarmd")
	net := b.scope + "-net"
	if _, err := b.engine.NetworkCreate(t.Context(), net, network.CreateOptions{Labels: map[string]string{engine.LabelRole: naming.RoleSN, engine.LabelScope: b.scope}}); err != nil {
		t.Fatal(err)
	}
	// Started together: the node's launcher waits for the server.
	launched := make(chan string, 1)
	sn := b.sn("sn1", net, b.scope+"-sn1", map[string]string{})
	sn.Attach, sn.Detach = false, true
	go func() {
		_, err := component.Run(t.Context(), b.engine, sn, b.io(nil))
		launched <- fmt.Sprint(err)
	}()
	b.await("the launcher to wait", func() bool { return strings.Contains(b.log.String(), "waiting for the SPIRE server") })
	server := b.swarmd(engine.RoleSpireServer, "spire", net, "run-spire-server", "--node", "sn/sn1")
	server.Attach, server.Detach = false, true
	var other bench
	other.t, other.engine, other.scope = t, b.engine, b.scope
	serverID := other.detached(server)
	if err := <-launched; err != "<nil>" {
		t.Fatalf("%s\n%s\n%s", err, b.log.String(), b.logs(serverID))
	}
	id := strings.TrimSpace(b.out.String())
	b.await("the SN", func() bool { return strings.Contains(b.logs(id), snReady) || !b.running(id) })
	if !b.running(id) {
		t.Fatalf("the SN ended:\n%s", b.logs(id))
	}
	c, err := b.engine.ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(c.Config.Env, c.Args...) {
		if strings.Contains(secret, "oin_token") || strings.Contains(secret, "joinToken=") {
			t.Errorf("everybody may read the token: %s", secret)
		}
	}

	t.Run("restart", func(t *testing.T) {
		// The used token does no harm.
		if err := b.engine.ContainerRestart(t.Context(), id, container.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		b.await("the SN after a restart", func() bool { return strings.Count(b.logs(id), snReady) == 2 || !b.running(id) })
		if !b.running(id) {
			t.Fatalf("the SN ended:\n%s", b.logs(id))
		}
	})
	t.Run("new container", func(t *testing.T) {
		if err := b.engine.ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		b.log.b.Reset()
		anew := b.detached(sn)
		if log := b.log.String(); !strings.Contains(log, "container="+id[:12]) || strings.Contains(log, "join token made") {
			t.Errorf("it is to remove the old one by its ID, and to make no token:\n%s", log)
		}
		b.await("the SN in a new container", func() bool { return strings.Contains(b.logs(anew), snReady) || !b.running(anew) })
		if !b.running(anew) {
			t.Fatalf("the SN ended:\n%s", b.logs(anew))
		}
	})
	t.Run("sl", func(t *testing.T) {
		// It deals with the engine as root, and makes and removes its bridge directory in the host's memory.
		name := b.scope + "-sl1"
		bridge := "/dev/shm/swarmd/" + name
		s := b.sn("sl1", net, name, map[string]string{})
		s.Role, s.Platform, s.EngineSocket, s.BridgeDir, s.Spill = naming.RoleSL, "PYT", true, bridge, true
		s.Args = []string{"run-sl", "--runtime=process", "--name=sl1", "--host-ip=" + name, "--sn-ip=" + b.scope + "-sn1", "--attach", "--bridge-dir=" + bridge, "-genJoinToken"}
		id := b.detached(s)
		b.await("the bridge", func() bool {
			_, err := os.Stat(bridge + "/bridge.sock")
			return err == nil || !b.running(id)
		})
		if !b.running(id) {
			t.Fatalf("the SL ended:\n%s", b.logs(id))
		}
		if err := b.engine.ContainerStop(t.Context(), id, container.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(bridge); err == nil {
			t.Errorf("the bridge directory is left:\n%s", b.logs(id))
		}
	})
	t.Run("swci", func(t *testing.T) {
		s := b.sn("", net, "", map[string]string{})
		s.Role, s.Stateless, s.Program, s.Attach, s.Detach, s.Remove, s.Name = naming.RoleSWCI, true, []string{"swarmctl"}, true, false, true, ""
		s.Args = []string{"list", "nodes", "--sn=" + b.scope + "-sn1:30304"}
		before := len(b.out.String())
		code, err := b.run(s)
		if err != nil || code != 0 || !strings.Contains(b.out.String()[before:], "sn1") {
			t.Errorf("exit code %d, %v, output %q, errors %q", code, err, b.out.String()[before:], b.errors.String())
		}
		for _, thing := range b.left() {
			if strings.HasPrefix(thing, "volume ") && !strings.HasPrefix(thing, "volume swarmd-") {
				t.Errorf("%s is left", thing)
			}
		}
	})
	t.Run("process", func(t *testing.T) {
		source := spire.TokenSource{Docker: b.scope + "-spire", Exec: component.LocalExec()}
		join, err := source.Join(t.Context(), identity.RoleSL, "sl-1")
		if err != nil || len(join.Token) != 36 || join.TrustDomain != "swarm.learning" {
			t.Errorf("got %+v, %v", join, err)
		}
		source.Docker = b.scope + "-nobody"
		if _, err := source.Join(t.Context(), identity.RoleSL, "sl-1"); err == nil || !strings.Contains(err.Error(), "there is no container") {
			t.Errorf("no container: %v", err)
		}
	})
	t.Run("no common network", func(t *testing.T) {
		_, err := b.run(b.sn("sn9", "", "127.0.0.1", map[string]string{}))
		if err == nil || !strings.Contains(err.Error(), "is not on the network of this component") {
			t.Errorf("got %v", err)
		}
	})
}

func (b *bench) running(id string) bool {
	c, err := b.engine.ContainerInspect(b.t.Context(), id)
	return err == nil && c.State.Running
}

// TestSpireDefaultBridge has no DNS, and state on the host whose owner is not the image's user.
func TestSpireDefaultBridge(t *testing.T) {
	b := newBench(t)
	enginetest.NeedImage(t, b.engine, image(), "scripts/images swarmd")
	state := t.TempDir()
	for _, dir := range []string{"server", "sn"} {
		if err := os.Mkdir(state+"/"+dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(state+"/"+dir, 4321, 4321); err != nil {
			t.Skipf("needs root: %v", err)
		}
	}
	server := b.swarmd(engine.RoleSpireServer, "spire", "", "run-spire-server")
	server.StateDir = state + "/server"
	b.detached(server)
	b.out.b.Reset()
	sn := b.sn("sn1", "", "127.0.0.1", map[string]string{"spire-docker-name": b.scope + "-spire"})
	sn.StateDir = state + "/sn"
	id := b.detached(sn)
	b.await("the SN", func() bool { return strings.Contains(b.logs(id), snReady) || !b.running(id) })
	if !b.running(id) {
		t.Fatalf("the SN ended:\n%s", b.logs(id))
	}
	var join spire.Join
	raw, err := os.ReadFile(state + "/sn/spire-join.json")
	if err != nil || json.Unmarshal(raw, &join) != nil || join.Agent != "/swarm/sn-agent" {
		t.Errorf("join file %s, %v", raw, err)
	}
	if info, err := os.Stat(state + "/sn/spire-join.json"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("join file %v, %v", info, err)
	}
}
