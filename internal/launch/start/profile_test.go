package start_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// TestAnIdentityInVolumes holds what an SL's container is told of a key that no path of the host leads to: the volume is there, read-only, and
// nothing of the host is looked for.
func TestAnIdentityInVolumes(t *testing.T) {
	o := start.SL{Node: start.Node{Name: "sl", Host: "10.0.0.1"}, SNs: []string{"sn"}, ML: start.ML{Runtime: start.Docker, Image: "i", Cmd: start.Words{"x"}}}
	err := o.TakeMounted([]taskfile.Attribute{
		{Kind: "KEY", MountType: "VOLUME", Src: "swarm-keys", Tgt: "/swarm-cert/key.pem", SubPath: "sl/key.pem"},
		{Kind: "CERT", MountType: "Volume", Src: "swarm-keys", SubPath: "sl/cert.pem"},
		{Kind: "CAPATH", MountType: "VOLUME", Src: "cas"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := o.Component(start.Env{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--key=/platform/swarm/identity/swarm-keys/sl/key.pem", "--cert=/platform/swarm/identity/swarm-keys/sl/cert.pem", "--capath=/platform/swarm/identity/cas"} {
		if !slices.Contains(s.Args, want) {
			t.Errorf("%s is missing: %q", want, s.Args)
		}
	}
	if want := []string{"swarm-keys:/platform/swarm/identity/swarm-keys:ro", "cas:/platform/swarm/identity/cas:ro"}; !slices.Equal(s.Volumes, want) || len(s.Files) > 0 {
		t.Errorf("volumes %q, files %q", s.Volumes, s.Files)
	}
	agent := start.SL{Node: start.Node{Name: "sl", Host: "10.0.0.1"}, SNs: o.SNs, ML: o.ML}
	if err := agent.TakeMounted([]taskfile.Attribute{{Kind: "SPIFFE_SOCKETPATH", MountType: "VOLUME", Src: "spire-agent-sock", Tgt: "/tmp/spire-agent/public"}}); err != nil {
		t.Fatal(err)
	}
	if s, err = agent.Component(start.Env{Getenv: func(string) string { return "" }}); err != nil || s.SocketPath != "" || !slices.Contains(s.Args, "--socket-path=/platform/swarm/identity/spire-agent-sock/api.sock") {
		t.Errorf("an agent's socket: %v, %q, %q", err, s.SocketPath, s.Args)
	}
	for want, a := range map[string]taskfile.Attribute{
		"lies in the volume":       {Kind: "KEY", MountType: "VOLUME", Src: "v", SubPath: "../x"},
		"no name of a volume":      {Kind: "KEY", MountType: "VOLUME", Src: "/etc", SubPath: "x"},
		"is no name":               {Kind: "KEY", MountType: "VOLUME", Src: "a:/b", SubPath: "x"},
		"name the file in it":      {Kind: "CERT", MountType: "VOLUME", Src: "v"},
		"which is no name of a vo": {Kind: "CERT", MountType: "VOLUME", Src: "..", SubPath: "x"},
	} {
		n := start.Node{Container: component.Options{}}
		if err := n.TakeMounted([]taskfile.Attribute{a}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
}
