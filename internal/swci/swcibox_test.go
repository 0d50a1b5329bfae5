package swci_test

import (
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/swci"
)

func TestPromptsContainer(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "sb-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Chdir(dir)
	if err := os.Mkdir("usr", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c.pem", "k.pem"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sock := filepath.Join(dir, "agent.sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(sock, 0o777); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"XDG_STATE_HOME": dir, "TERM": "vt100", "SWARM_SCOPE": "team", "SWARM_PROG": "/x/run-swci"}
	s := &swci.Session{Grammar: grammar(t), Env: swci.Env{
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(k string) string { return env[k] }, IsTerminal: func(io.Writer) bool { return false },
	}}
	contexts, err := swci.OpenContexts(s.Env.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []swci.Context{
		{Name: "lab", SNs: []string{"sn1:1", "sn2:2"}},
		{Name: "files", SNs: []string{"sn1:1"}, TrustDomains: []string{"x", "y"}, Identity: "files:cert=" + url.QueryEscape(dir+"/c.pem") + "&key=k.pem"},
	} {
		if err := contexts.Save(c); err != nil {
			t.Fatal(err)
		}
	}
	with := func(edit func(s *component.Spec)) component.Spec {
		want := component.Spec{
			Role: "swci", Scope: "team", Stateless: true, Program: []string{"swarmctl"}, Args: []string{"run-swci", "--runtime=process"},
			Vars:    []string{"SWARM_IN_CONTAINER=1", "XDG_STATE_HOME=/tmp/state", "HOME=/tmp", "TERM=vt100", "SWARM_PROG=run-swci"},
			Options: component.Options{Remove: true, Interactive: true},
		}
		edit(&want)
		return want
	}
	tests := []struct {
		name string
		args []string
		want component.Spec
	}{
		{"nothing", nil, with(func(*component.Spec) {})},
		{
			"docker's options",
			strings.Fields("--name cc --hostname h --net n -e A=1,2 --env=B=2 -l k=v -p 1:2 -u 5:6 -v /a:/b -w /c -it --rm --image i"),
			with(func(s *component.Spec) {
				s.Name, s.Hostname, s.Network, s.User, s.WorkDir, s.Image = "cc", "h", "n", "5:6", "/c", "i"
				s.Env, s.Labels, s.Publish, s.Volumes = []string{"A=1,2", "B=2"}, []string{"k=v"}, []string{"1:2"}, []string{"/a:/b"}
			}),
		},
		{"user directory, relative", strings.Fields("--usr-dir usr --init-script-name=start"), with(func(s *component.Spec) {
			s.Mounts = []component.Mount{{Source: dir + "/usr", Target: "/platform/swci/usr"}, {Source: dir + "/usr", Target: "/platform/swarm/usr"}}
			s.Args = append(s.Args, "--usr-dir=/platform/swci/usr", "--init-script-name=start")
		})},
		{"web mode, in the background", strings.Fields("--web --web-port 7 --web-client spiffe://d/swarm/swci/a --web-client spiffe://d/swarm/swci/* -d -p 7:7"), with(func(s *component.Spec) {
			s.Args = append(s.Args, "--web=true", "--web-port=7", "--web-client=spiffe://d/swarm/swci/a", "--web-client=spiffe://d/swarm/swci/*")
			s.Publish, s.Detach, s.Interactive = []string{"7:7"}, true, false
		})},
		{"metrics of web mode", strings.Fields("--web --metrics 127.0.0.1:9464 -p 7:7"), with(func(s *component.Spec) {
			s.Args = append(s.Args, "--metrics=:9464", "--web=true")
			s.Publish = []string{"7:7", "127.0.0.1:9464:9464"}
			s.Vars = []string{"SWARM_IN_CONTAINER=1", "XDG_STATE_HOME=/tmp/state", "HOME=/tmp", "TERM=vt100", "SWARM_PROG=run-swci", "SWARM_METRICS_LOCAL=1"}
		})},
		{"SNs and files", strings.Fields("--sn a:1 --sn b:2 --trust-domain x --cert c.pem --key " + dir + "/k.pem --cert-roles cn"), with(func(s *component.Spec) {
			s.Args = append(s.Args, "--sn=a:1", "--sn=b:2", "--trust-domain=x", "--cert="+dir+"/c.pem", "--key="+dir+"/k.pem", "--cert-roles=cn")
			s.Files = []string{dir + "/c.pem", dir + "/k.pem"}
		})},
		{"a context's files and trust domains", strings.Fields("--context files"), with(func(s *component.Spec) {
			s.Args = append(s.Args, "--sn=sn1:1", "--trust-domain=x", "--trust-domain=y", "--cert="+dir+"/c.pem", "--key="+dir+"/k.pem")
			s.Files = []string{dir + "/c.pem", dir + "/k.pem"}
		})},
		{"a context's SNs, a socket", strings.Fields("--context lab --socket-path " + sock), with(func(s *component.Spec) {
			s.Args, s.SocketPath = append(s.Args, "--sn=sn1:1", "--sn=sn2:2", "--identity="+sock), sock
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := swci.BoxSpec(s, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			got.Version = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a SPIRE agent", func(t *testing.T) {
		got, err := swci.BoxSpec(s, "-serverAddress", "spire", "--gen-join-token", "--spire-docker-name", "server")
		if err != nil {
			t.Fatal(err)
		}
		a := got.Agent
		if a == nil || a.Role != "swci" || a.ServerAddress != "spire" || a.GenJoinToken == nil || a.GenJoinToken.Docker != "server" {
			t.Errorf("agent: %+v", a)
		}
	})
	t.Run("a socket that is its owner's", func(t *testing.T) {
		if err := os.Chmod(sock, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := swci.BoxSpec(s, "--identity", sock); err != nil || !strings.HasPrefix(got.User, "0:") && os.Geteuid() == 0 {
			t.Errorf("user %q: %v", got.User, err)
		}
	})
	for args, want := range map[string]string{
		"--identity " + dir + "/absent": "absent",
		"--cert absent.pem":             "--cert: absent.pem: bad file: it does not exist",
		"--usr-dir absent":              "--usr-dir: absent: bad path: it does not exist",
		"--detach":                      "a prompt can't run in the background",
		"--label io.swarmd.role=sn":     "labels that begin with io.swarmd.",
	} {
		if _, err := swci.BoxSpec(s, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// TestEveryOptionOfThePromptIsKnown holds that internal/launch/start knows each option of run-swci, and no others.
func TestEveryOptionOfThePromptIsKnown(t *testing.T) {
	places := start.Places(&start.SWCI{})
	for _, name := range []string{"restart"} { // nobody starts again what is removed
		delete(places, name)
	}
	for _, f := range swci.SWCIFlags() {
		switch name := f.Names()[0]; name {
		case "runtime", "sudo", "it": // the command's own
		default:
			if _, known := places[name]; !known {
				t.Errorf("--%s is no option of internal/launch/start", name)
			}
			delete(places, name)
		}
	}
	for _, name := range []string{"sn", "trust-domain", "spiffe-prefix", "cert", "key", "cacert", "capath", "cert-roles"} { // of all commands
		delete(places, name)
	}
	if len(places) > 0 {
		t.Errorf("run-swci has no options %v", places)
	}
}
