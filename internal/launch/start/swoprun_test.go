package start_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestSecondOperatorOfAHost: where the default port of a SWOP's file server is taken its container is started without one, which is said; where
// the port was named it is not started.
func TestSecondOperatorOfAHost(t *testing.T) {
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, engine.ImageSwarmd, "scripts/images swarmd")
	enginetest.Scope(t)
	if ln, err := net.Listen("tcp", "127.255.255.254:30308"); err == nil { // else another process has it; at other addresses others may listen meanwhile
		defer ln.Close()
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var id, log bytes.Buffer
	user := component.IO{Stdout: &id, Log: slog.New(slog.NewTextHandler(&log, nil))}
	o, _ := swop(t)
	o.Host, o.Container = host, component.Options{Detach: true, Image: engine.ImageSwarmd}
	env := start.Env{Getenv: os.Getenv}
	if _, err := o.Run(t.Context(), e, env, user); err != nil {
		t.Fatal(err)
	}
	c, err := e.ContainerInspect(t.Context(), strings.TrimSpace(id.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.Args, "--swop-fs-port=0") || len(c.HostConfig.PortBindings) > 0 {
		t.Errorf("it is started with %q, at %v", c.Args, c.HostConfig.PortBindings)
	}
	if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), "30308") || !strings.Contains(log.String(), "remedy=") {
		t.Errorf("it says:\n%s", &log)
	}
	named := start.SWOPFSPort
	o.Name, o.FSPort = "swop-2", &named
	if _, err := o.Run(t.Context(), e, env, user); engine.TakenPort(err) != int(named) {
		t.Errorf("a port that was named: %v", err)
	}
}
