package spire

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/filelock"
)

// sharedProbe is how often a process that uses another's agent looks whether it is to run it.
const sharedProbe = 100 * time.Millisecond

// takeOrShare takes the directory unless another process has it, or it is another component's that this one can't write; lock is nil then.
func (s *agentSetup) takeOrShare() (lock *filelock.Lock, err error) {
	lock, err = filelock.Take(filepath.Join(s.cfg.StateDir, "lock"))
	if errors.Is(err, filelock.ErrLocked) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // it is the other's
	}
	return lock, err
}

// share uses the agent that another process runs in the directory until that process gives the directory up, which this one takes then,
// or ctx ends. It tells when the other's agent answers.
func (a *Agent) share(ctx context.Context, onReady func()) error {
	tick := time.NewTicker(sharedProbe)
	defer tick.Stop()
	answered := false
	a.state.setProblem("another process on this host runs the SPIRE agent in " + a.setup.cfg.StateDir + ", and the agent does not answer yet")
	for {
		lock, err := a.setup.takeOrShare()
		if err != nil {
			return err
		}
		if lock != nil {
			a.lock = lock
			if answered {
				a.setup.cfg.Log.Info("the process that ran this host's SPIRE agent has ended; this one runs it from now on", "dir", a.setup.cfg.StateDir)
			}
			return nil
		}
		if !answered {
			if conn, err := net.DialTimeout("unix", a.setup.socket, time.Second); err == nil {
				_ = conn.Close()
				answered = true
				a.state.shared()
				onReady()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// shared notes that another process's agent answers.
func (a *agentState) shared() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.everUp, a.since, a.problem = true, true, time.Now(), ""
	a.setup.cfg.Log.Info("the SPIRE agent of another component on this host is used", "socket", a.setup.socket)
}
