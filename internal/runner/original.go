package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/bridge/original"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/mountns"
)

// originalDir is the directory below a state directory in which a program with the original's client has its pipes and weight files.
const originalDir = "original"

// servesOriginal reports whether a program's client is the original's, beside being this node's package's.
func (c Config) servesOriginal(beside string) bool {
	if c.Client == launch.ClientOriginal {
		return true
	}
	found, there := launch.OriginalBeside(beside)
	if c.Client == launch.ClientOwn || !there {
		return false
	}
	c.Log.Info("the program would import the original's client, which is served; --ml-client swarmlearning refuses it", "found", found)
	return true
}

// serveOriginal has a program that runs as a process started by what serves its client, with a private folder where its release 2.3 wants
// one.
func (c Config) serveOriginal(ctx context.Context, spec *launch.Spec) error {
	folder, err := filepath.Abs(filepath.Join(c.StateDir, originalDir))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of the original's client: %w", err)
	}
	binds := append(spec.Binds, mountns.Bind{Source: folder, Target: original.Folder})
	if err := mountns.Check(ctx, binds); err != nil {
		c.Log.Warn("this machine makes no mount namespace for the program: the original's client of release 2.3 finds no weight files then; use --runtime docker for it",
			"folder", original.Folder, "err", err)
	} else {
		spec.Binds = binds
	}
	words := original.Options{Folder: folder}.Wrap("/proc/self/exe", append([]string{spec.Path}, spec.Args...))
	spec.Path, spec.Args = words[0], words[1:]
	c.Log.Info("serving the original's client", "folder", folder)
	return nil
}
