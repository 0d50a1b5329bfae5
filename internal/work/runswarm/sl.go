package runswarm

import (
	"fmt"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// process is an SL whose program runs as a process beside it.
type process struct {
	sl  start.SL
	env []string // of the SL itself
}

// process describes the SL of a node, which keeps its key in stateDir.
func (h *Host) process(n *taskfile.Node, r taskfile.RunSwarm, leads map[string]string, stateDir string) (x process, err error) {
	p, err := resolve(r, n, leads)
	if err != nil {
		return x, err
	}
	x.sl = start.SL{
		Node: h.node(n), SNs: h.SNs, FSPort: port(n), FSService: n.SLFSService, ML: start.ML{Runtime: start.Process, GPUs: n.User.GPUs},
		DataDir: p.data, ModelDir: p.model, Program: p.file, Args: p.args, Python: p.python, LogsTo: []string{logs.None}, // its host hands out what it prints, as the policy says
	}
	if n.SLHostIP != "" {
		x.sl.Host = n.SLHostIP
	}
	if x.sl.StateDir, err = filepath.Abs(stateDir); err != nil {
		return x, err
	}
	if err := h.identify(&x.sl.Node, n); err != nil {
		return x, err
	}
	if !h.Profile.SetsSessionTimeout(n) {
		x.sl.SessionTimeout = h.SessionTimeout
	}
	x.sl.Container.Env = p.env
	for _, v := range h.Profile.SLEnv(n) {
		x.env = append(x.env, v.Name+"="+v.Value)
	}
	if err := x.sl.Settle(); err != nil {
		return x, fmt.Errorf("node %d of the profile: %w", n.Index, err)
	}
	return x, nil
}
