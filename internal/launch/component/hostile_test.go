package component_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
)

// Where everybody may write, another user can have put a link in the way of an SL's bridge directory.
func TestForeignLinkToTheBridge(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: to make another user's link")
	}
	b := newBench(t)
	dir := t.TempDir()
	target := filepath.Join(dir, "etc")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "swarmd")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	sl := b.shell("sl-1", `mkdir "$0"`, func(s *component.Spec) {
		s.Role, s.EngineSocket, s.BridgeDir = naming.RoleSL, true, filepath.Join(link, "sl-1")
		s.Args = append(s.Args, s.BridgeDir)
	})
	if err := os.Lchown(link, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(sl); err == nil || !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v, want a refusal", err)
	}
	if made, _ := os.ReadDir(target); len(made) != 0 {
		t.Errorf("the container wrote where the link leads: %v", made)
	}
	if err := os.Lchown(link, 0, 0); err != nil { // one's own is one's own business
		t.Fatal(err)
	}
	if code, err := b.run(sl); err != nil || code != 0 {
		t.Errorf("with a link of root's: exit code %d, %v", code, err)
	}
}

// An SL's program prints as much as it likes, and the SL passes it on.
func TestLogsAreBounded(t *testing.T) {
	b := newBench(t)
	info, err := b.engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.LoggingDriver != "json-file" {
		t.Skipf("needs an engine that keeps logs in files, and this one has %s", info.LoggingDriver)
	}
	c, err := b.engine.ContainerInspect(t.Context(), b.detached(b.shell("sn-1", "exec sleep 100", nil)))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.HostConfig.LogConfig; got.Config["max-size"] != "20m" || got.Config["max-file"] != "5" {
		t.Errorf("logs are kept with %+v", got)
	}
}
