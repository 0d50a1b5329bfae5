package runswarm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

const (
	endGrace  = 30 * time.Second          // that an SL has to leave the swarm and to end its program
	busyLimit = endGrace + 10*time.Second // for SLs of the assignment before
	busyPause = 200 * time.Millisecond

	optionsOption = "config-file"
)

// startSL starts an SL that outlives this process.
func (p *Processes) startSL(ctx context.Context, m member, n slNode, x process) error {
	if err := x.findPython(ctx, p.Getenv); err != nil {
		return err
	}
	x.sl.BridgeDir, x.sl.Part = n.BridgeDir, m.Part()
	// Variables of a task are not to be read by every user of the host, as command lines are.
	options, err := yaml.Marshal(start.Texts(&x.sl))
	if err == nil {
		err = atomicfile.Replace(m.file(n, optionsFile), options, 0o600)
	}
	if err != nil {
		return err
	}
	exit := m.file(n, exitFile)
	env, err := launch.ProgramEnv(launch.EnvConfig{Inherit: taskenv.Inherited(os.Environ()), Extra: slices.Concat(x.env, detached.Passed("SWARM_LOCAL_ID"), []string{start.ExitFile + "=" + exit, "SWARM_SCOPE=" + p.Scope})})
	if err != nil {
		return fmt.Errorf("node %d of the profile: %w", n.Index, err)
	}
	cmd := exec.Command(p.Swarmd, "run-sl", "--runtime=process", "--"+optionsOption+"="+m.file(n, optionsFile)) //nolint:noctx // it outlives this process
	cmd.Dir, cmd.Env = m.dir, env
	if err := p.children.Start(cmd, m.file(n, outputFile), exit, p.Log); err != nil {
		return fmt.Errorf("start SL %s: %w", x.sl.Name, err)
	}
	// It does so itself, but only when it has read its options.
	if _, err := registry.Add(registry.Entry{PID: cmd.Process.Pid, Role: naming.RoleSL, Name: x.sl.Name, Platform: x.sl.Platform, StateDir: n.StateDir, Scope: p.Scope}); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.Log.Info("started an SL for a task", "node", x.sl.Name, "pid", cmd.Process.Pid, "assignment", m.Assignment, "program", x.sl.Program)
	return nil
}

// live are the SLs that run, by the files with their options, of which each member has its own. State directories, which hold the SLs' keys, are
// the same for all members.
func (p *Processes) live() (map[string]registry.Entry, error) {
	return detached.Registered(p.Scope, naming.RoleSL, optionsOption)
}

// runs reports whether an SL of a member lives, or has been started and not been seen to end.
func (p *Processes) runs(live map[string]registry.Entry, m *member, n slNode) bool {
	_, lives := live[m.file(n, optionsFile)]
	return lives || p.children.Awaits(m.file(n, exitFile))
}

// free blocks until nothing is left of other members that has the state directories of a member's: they may be about to end. An SL of the same
// name has the same key, so that there is one at a time.
func (p *Processes) free(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	for {
		other, err := p.inTheWay(m)
		if err != nil || other == "" {
			return err
		}
		if pause.For(ctx, busyPause) != nil {
			return fmt.Errorf("%s still runs on this host, with the key that an SL of this task is to have: wait until that is over, or end it", other)
		}
	}
}

// inTheWay names what has a state directory of a member's; empty: nothing.
func (p *Processes) inTheWay(m *member) (string, error) {
	has := func(dir string) bool {
		return slices.ContainsFunc(m.Nodes, func(n slNode) bool { return n.StateDir == dir })
	}
	members, err := p.members()
	if err != nil {
		return "", err
	}
	for _, other := range members {
		if other.Label != m.Label && slices.ContainsFunc(other.Nodes, func(n slNode) bool { return has(n.StateDir) }) {
			return "assignment " + other.Assignment, nil
		}
	}
	live, err := p.live()
	for file, e := range live {
		if filepath.Dir(file) != m.dir && has(e.StateDir) {
			return fmt.Sprintf("SL %s (process %d)", e.Name, e.PID), err
		}
	}
	return "", err
}
