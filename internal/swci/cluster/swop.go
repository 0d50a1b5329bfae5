package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// swopMarker is what a SWOP says when it takes tasks.
const swopMarker = "Ready for Task Execution!"

// Taskrunner is the one whose tasks SWOPs take: every swarm has it from the start.
const Taskrunner = "defaulttaskbb.taskdb.sml.hpe"

// SWOPSpec describes a SWOP, which starts SLs for tasks as processes.
type SWOPSpec struct {
	Index   int
	Peers   int    // SLs that its profile starts
	Private string // directory that programs have as the task's PrivateContent: with the program, and data
}

// SWOPName is the name of the SWOP with index i.
func SWOPName(i int) string { return "swop-" + strconv.Itoa(i) }

// StartSWOP starts a SWOP of the default taskrunner, and returns when it takes tasks.
func (c *Cluster) StartSWOP(ctx context.Context, s SWOPSpec) error {
	name, ready := SWOPName(s.Index), make(chan struct{})
	dir := filepath.Join(c.dir.path, name+"-usr")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of a SWOP: %w", err)
	}
	profile, err := c.profile(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "profile.yaml"), profile, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write profile of a SWOP: %w", err)
	}
	port, err := c.ports.take(loopback)
	if err != nil {
		return err
	}
	p, err := c.launch(name, SWOP, onceSeen(swopMarker, ready), append([]string{
		c.cfg.Swarmd, "run-swop", "--name", name, "--host-ip", loopback, "--usr-dir", dir, "--profile-file-name", "profile.yaml",
		"--state-dir", filepath.Join(c.dir.path, name), "--swop-fs-port", strconv.Itoa(port),
	}, append(c.authority().args(), c.runtimeArgs()...)...)...)
	if err != nil {
		return err
	}
	return c.await(ctx, p, "its tasks", func() bool { return closed(ready) })
}

// profile is a SWOP's, in the original's form.
func (c *Cluster) profile(s SWOPSpec) ([]byte, error) {
	var nodes []any
	for i := range s.Peers {
		port, err := c.ports.take(loopback)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, map[string]any{"slnodedef": map[string]any{
			"idx": i, "identity": nil, "slhostname": nil, "usrhostname": nil, "slhostip": loopback, "slport": port,
			"privatedata": map[string]any{"src": s.Private, "mType": "BIND"}, "slenvvars": nil, "usrenvvars": nil,
		}})
	}
	host, port, err := net.SplitHostPort(c.sns[s.Index%len(c.sns)])
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(map[string]any{
		"groupname": SWOPName(s.Index), "taskrunner": Taskrunner, "policyuri": nil, "network": "none",
		"resourcemgr": map[string]any{"mgrtype": "DOCKER", "accessinfo": map[string]any{"accesstype": "FROMENV"}},
		"apls":        map[string]any{"locator": map[string]any{"host": nil, "port": nil}},
		"apisrv":      map[string]any{"locator": map[string]any{"host": host, "port": number, "service": nil}},
		"envvars":     nil, "nodes": nodes,
	})
}
