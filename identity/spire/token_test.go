package spire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
)

// fakes are programs on PATH. The fake docker runs the real spire-server, which it tells where the socket is, and so does
// ssh, which lets a shell take its words apart, as sshd does.
func fakes(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

// localExec is an Exec through the fake docker.
func localExec(ctx context.Context, container string, argv []string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "docker", append([]string{"exec", container}, argv...)...).Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case ok && exit.ExitCode() == 126:
		return nil, spire.ErrNoProgram
	case ok:
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

const fakeSSH = `while [ "$1" != -- ]; do shift; done; shift; shift; exec sh -c "$*"`

// fakeDocker knows one container, and the container one program.
func fakeDocker(binary, socket string) string {
	return `[ "$1" = exec ] || { echo "what is $1?" >&2; exit 2; }
[ "$2" = spire ] || { echo "Error response from daemon: No such container: $2" >&2; exit 1; }
[ "$3" = spire-server ] || { echo "OCI runtime exec failed: exec: \"$3\": executable file not found" >&2; exit 126; }
shift; shift; shift; exec ` + binary + ` "$@" -socketPath ` + socket
}

func TestTokenSource(t *testing.T) {
	s := start(t, spire.ServerConfig{TrustDomain: "a.example", Nodes: []string{"sl/hospital-a"}}, spiretest.TempDir(t)).ready(t)
	fakes(t, map[string]string{"docker": fakeDocker(s.binary, s.socket), "ssh": fakeSSH})
	nodocker := filepath.Join(t.TempDir(), "none.sock")
	for name, tc := range map[string]struct {
		source spire.TokenSource
		origin string
	}{
		"socket":             {spire.TokenSource{Socket: s.socket, Docker: "other", ServerAddress: "h"}, "API socket " + s.socket},
		"docker":             {spire.TokenSource{Socket: nodocker, Docker: "spire", Exec: localExec}, "docker exec spire"},
		"docker over ssh":    {spire.TokenSource{Docker: "spire", ServerAddress: "h.example"}, "ssh h.example"},
		"trust domain given": {spire.TokenSource{Docker: "spire", Exec: localExec, TrustDomain: "ignored.example"}, "docker exec spire"},
	} {
		t.Run(name, func(t *testing.T) {
			join, err := tc.source.Join(t.Context(), identity.RoleSL, "hospital-a")
			if err != nil {
				t.Fatal(err)
			}
			if join.Origin != tc.origin {
				t.Errorf("came from %q, want %q", join.Origin, tc.origin)
			}
			if join.TrustDomain != "a.example" || string(join.Bundle) != string(s.tool(t, nil, "bundle", "show")) {
				t.Errorf("trust domain %q, bundle\n%s", join.TrustDomain, join.Bundle)
			}
			alias := false
			for _, e := range s.entries(t, true) {
				alias = alias || e.ParentID == "spiffe://a.example/spire/agent/join_token/"+join.Token && e.SPIFFEID == "spiffe://a.example/swarm/sl-agent/hospital-a"
			}
			if !alias {
				t.Errorf("token %q has no alias", join.Token)
			}
		})
	}
}

// TestTokenOverSSH lets docker be only on the other machine.
// A node has an agent of its own only if it has an entry of its own; --name alone gives none.
func TestTokenSourceFitsTheEntries(t *testing.T) {
	s := start(t, spire.ServerConfig{TrustDomain: "a.example", Nodes: []string{"sl/hospital-a"}}, spiretest.TempDir(t)).ready(t)
	fakes(t, map[string]string{"docker": fakeDocker(s.binary, s.socket), "ssh": fakeSSH})
	for way, source := range map[string]spire.TokenSource{"socket": {Socket: s.socket}, "docker": {Docker: "spire", Exec: localExec}} {
		for name, want := range map[string]string{"hospital-a": "/swarm/sl-agent/hospital-a", "hospital-b": "/swarm/sl-agent", "": "/swarm/sl-agent"} {
			join, err := source.Join(t.Context(), identity.RoleSL, name)
			if err != nil || join.Agent != want {
				t.Errorf("%s, node %q: agent %q (%v), want %s", way, name, join.Agent, err, want)
			}
		}
	}
}

func TestTokenOverSSH(t *testing.T) {
	s := start(t, spire.ServerConfig{TrustDomain: "a.example"}, spiretest.TempDir(t)).ready(t)
	remote := t.TempDir()
	if err := os.WriteFile(filepath.Join(remote, "docker"), []byte("#!/bin/sh\n"+fakeDocker(s.binary, s.socket)+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	fakes(t, map[string]string{"ssh": "PATH=" + remote + ":$PATH\n" + fakeSSH, "docker": "echo 'no daemon' >&2; exit 1"})
	source := spire.TokenSource{Docker: "spire", Exec: localExec, ServerAddress: "h.example"}
	join, err := source.Join(t.Context(), identity.RoleSN, "")
	if err != nil || join.Origin != "ssh h.example" || join.TrustDomain != "a.example" || len(join.Token) != 36 {
		t.Fatalf("got %+v, %v", join, err)
	}
}

func TestTokenSourceRefusals(t *testing.T) {
	dir := fakes(t, map[string]string{
		"ssh":    `echo "Permission denied (publickey)." >&2; exit 255`,
		"docker": `echo "Error response from daemon: No such container: $2" >&2; exit 1`,
	})
	none := filepath.Join(dir, "none.sock")
	for name, tc := range map[string]struct {
		source spire.TokenSource
		want   string // regular expression
	}{
		"nothing": {spire.TokenSource{}, `^generate join token: there is nobody to ask: .*-serverAddress.*--spire-docker-name.*swarmd spire-token sl/a`},
		"all": {
			spire.TokenSource{Socket: none, Docker: "spire", Exec: localExec, ServerAddress: "h.example", SSHUser: "bob", SSHPort: 2222},
			`(?s)every way failed: mend one of them, or make a token on .*swarmd spire-token sl/a.*API socket ` + none + `: no such socket.*docker exec spire: exit status 1: Error response from daemon: No such container: spire\n` +
				`.*ssh bob@h\.example:2222: exit status 255: Permission denied \(publickey\)\.$`,
		},
		"no engine":           {spire.TokenSource{Docker: "spire"}, `docker exec spire: this program reaches no container engine`},
		"no file":             {spire.TokenSource{File: none, Docker: "spire"}, `(?s)every way failed.*file ` + none + `: .*no such file`},
		"host is an option":   {spire.TokenSource{ServerAddress: "-oProxyCommand=x"}, `"-oProxyCommand=x" is no host`},
		"words for the shell": {spire.TokenSource{Docker: "a;reboot", Exec: localExec}, `"a;reboot" is no name of a container`},
	} {
		t.Run(name, func(t *testing.T) {
			join, err := tc.source.Join(t.Context(), identity.RoleSL, "a")
			if err == nil || !regexp.MustCompile(tc.want).MatchString(err.Error()) {
				t.Errorf("got %+v, error\n%v\nwant a match of\n%s", join, err, tc.want)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	source := spire.TokenSource{ServerAddress: "h.example"}
	if _, err := source.Join(t.Context(), identity.RoleSL, "a"); err == nil || !strings.Contains(err.Error(), `there is no program "ssh" on PATH`) {
		t.Errorf("no ssh: %v", err)
	}
}

// TestTokenSourceWaits lets the server of the second try be there.
func TestTokenSourceWaits(t *testing.T) {
	s := start(t, spire.ServerConfig{TrustDomain: "a.example"}, spiretest.TempDir(t)).ready(t)
	fakes(t, map[string]string{"docker": fakeDocker(s.binary, s.socket)})
	var tries []string
	late := func(ctx context.Context, container string, argv []string) ([]byte, error) {
		tries = append(tries, container)
		if len(tries) == 1 {
			return nil, errors.New("container spire is not running")
		}
		return localExec(ctx, container, argv)
	}
	var log bytes.Buffer
	source := spire.TokenSource{Docker: "spire", Exec: late, Wait: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))}
	join, err := source.Join(t.Context(), identity.RoleSL, "")
	if err != nil || len(join.Token) != 36 {
		t.Errorf("got %+v, %v", join, err)
	}
	if !strings.Contains(log.String(), "container spire is not running") {
		t.Errorf("it does not say what it waits for:\n%s", log.String())
	}
	looks := 0
	source.Docker, source.Exec = "", localExec
	source.FindDocker = func(context.Context) (string, error) {
		if looks++; looks == 1 {
			return "", nil
		}
		return "spire", nil
	}
	if join, err = source.Join(t.Context(), identity.RoleSL, ""); err != nil || len(join.Token) != 36 || looks != 2 {
		t.Errorf("a container that starts later: got %+v, %v after %d looks", join, err, looks)
	}
	if source.Docker != "" || !strings.Contains(log.String(), "none runs") {
		t.Errorf("it names %q and says\n%s", source.Docker, log.String())
	}
}

// TestTokenFromFile is what a node in a container does: its launcher asked for the token on the host.
func TestTokenFromFile(t *testing.T) {
	s := start(t, spire.ServerConfig{TrustDomain: "a.example"}, spiretest.TempDir(t)).ready(t)
	made, err := (&spire.TokenSource{Socket: s.socket}).Join(t.Context(), identity.RoleSL, "")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "join.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	made.Origin = "file " + file
	got, err := (&spire.TokenSource{File: file, Socket: s.socket}).Join(t.Context(), identity.RoleSL, "")
	if diff := cmp.Diff(made, got); err != nil || diff != "" {
		t.Errorf("error %v, difference (-want +got):\n%s", err, diff)
	}
}

// TestTokenSourceLies holds that what another machine prints is checked before it is believed.
func TestTokenSourceLies(t *testing.T) {
	for name, answer := range map[string]string{
		"no JSON":         `echo hello`,
		"no token":        `echo '{"trust_domain":"a.example","bundle":"eA=="}'`,
		"bad domain":      `echo '{"token":"abc","trust_domain":"A B","bundle":"eA=="}'`,
		"no certificates": `echo '{"token":"abc","trust_domain":"a.example","bundle":"eA=="}'`,
		"endless":         `yes x | head -c 3000000`,
	} {
		t.Run(name, func(t *testing.T) {
			fakes(t, map[string]string{"ssh": answer})
			source := spire.TokenSource{ServerAddress: "h.example"}
			if join, err := source.Join(t.Context(), identity.RoleSL, "a"); err == nil {
				t.Errorf("believed %+v", join)
			}
		})
	}
}
