package runner

import (
	"os"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/session/models"
)

// Sweep removes the weight files of a previous run that was killed, unless its program lives on and has them: whatever this run waits for, or
// dies of, before it has a bridge of its own. A model of which there is no copy on disk is copied first: if all SLs were killed at once,
// nobody has it else. What can't be done, Claim will say.
func (r *Runner) Sweep(modelsDir, scratchDir string) {
	if r.containers != nil && r.containers.kept {
		return
	}
	take := func(note string, f *os.File) {
		round, err := models.Salvage(modelsDir, scratchDir, note, f)
		if err != nil { // as a rule a round was being merged into it
			r.cfg.Log.Info("a weight file of this node's previous run holds no whole model", "file", f.Name(), "err", err)
			return
		}
		r.cfg.Log.Info("the weight files of this node's previous run hold a model; it is kept on disk", "round", round)
	}
	if err := bridge.Sweep(r.cfg.BridgeDir, r.cfg.SpillDir, take); err != nil {
		r.cfg.Log.Debug("could not remove the weight files of this node's previous run", "dir", r.cfg.BridgeDir, "err", err)
	}
}
