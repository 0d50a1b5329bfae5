package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// finishedName is the file in the state directory that tells of a process that has ended well with its final model.
const finishedName = "finished.json"

// finishedRun is a training that a program of this node has finished.
type finishedRun struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Program  string `json:"program"` // tells programs apart that would be started differently
}

// fingerprint tells processes apart that would be started differently. What they inherit of the environment is new with each start.
func (p *process) fingerprint() string {
	c := p.cfg
	return digestOfStart(fmt.Appendf(nil, "%q %q %q %q %q", c.Platform, c.Program, c.ModelDir, c.DataDir, c.Env), c.Args)
}

// digestOfStart is a fingerprint. Without arguments it is that of daemons that gave none.
func digestOfStart(started []byte, args []string) string {
	if len(args) > 0 {
		started = fmt.Appendf(started, " %q", args)
	}
	sum := sha256.Sum256(started)
	return hex.EncodeToString(sum[:])
}

func (p *process) finishedPath() string { return filepath.Join(p.cfg.StateDir, finishedName) }

// finished returns what a previous run noted; the zero value if there is nothing that can be used.
func (p *process) finished() (out finishedRun) {
	b, err := os.ReadFile(p.finishedPath())
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.cfg.Log.Warn("the note of the training that this node has finished can't be used", "file", p.finishedPath(), "err", err)
	}
	if err != nil {
		return finishedRun{}
	}
	return out
}

// noteFinished keeps that the program has ended well with the final model of a run. Without the note the next run would start it
// again, for the same model.
func (p *process) noteFinished(contract string, run uint64) {
	b, err := json.Marshal(finishedRun{Contract: contract, Run: run, Program: p.fingerprint()})
	if err == nil {
		err = atomicfile.Replace(p.finishedPath(), b, 0o600)
	}
	if err != nil {
		p.cfg.Log.Warn("could not keep that this node has finished its training", "err", err)
	}
}

// Settled returns the contract whose training a program of a previous run has finished, if that is still its last, and whether the
// program that this run would start is the same one. That of a container which would be started the same way is adopted instead.
func (r *Runner) Settled(ctx context.Context, api Swarm) (contract string, same bool) {
	var done finishedRun
	mine := ""
	switch {
	case r.process != nil:
		p := r.process
		done, mine = p.finished(), p.fingerprint()
	case r.containers != nil:
		c := r.containers
		if rec := c.journal.Record(); c.wasDone(rec) && rec.Program != c.fingerprint() {
			done = finishedRun{Contract: rec.Session.Contract, Run: rec.Session.Run, Program: rec.Program}
		}
	}
	if done.Contract == "" || r.standing(ctx, api, done.Contract, done.Run) != runOver {
		return "", false
	}
	return done.Contract, done.Program == mine
}
