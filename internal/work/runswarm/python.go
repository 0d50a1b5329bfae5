package runswarm

import (
	"context"
	"path"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/launch"
)

// findPython finds the Python that a task's program runs in, and the platform that the program is for: TF, PYT, or empty if that is not
// seen. Where the task says no more than python3, it is one that imports what the program does. It blocks while Pythons are tried.
func (x *process) findPython(ctx context.Context, getenv func(string) string) (err error) {
	x.sl.Platform = launch.PlatformOf(filepath.Join(x.sl.ModelDir, x.sl.Program))
	explicit := ""
	if name := path.Base(x.sl.Python); path.IsAbs(x.sl.Python) || name != "python" && name != "python3" {
		explicit = x.sl.Python
	}
	x.sl.Python, err = launch.FindPython(ctx, x.sl.Platform, explicit, getenv)
	return err
}
