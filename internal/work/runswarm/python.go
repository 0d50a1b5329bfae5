package runswarm

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
)

// maxSource is how much of a program is looked at, in bytes.
const maxSource = 1 << 20

// findPython finds the Python that a task's program runs in, and the platform that the program is for: TF, PYT, or empty if that is not
// seen. Where the task says no more than python3, it is one that imports what the program does. It blocks while Pythons are tried.
func (x *process) findPython(ctx context.Context, getenv func(string) string) (err error) {
	x.sl.Platform = platformOf(filepath.Join(x.sl.ModelDir, x.sl.Program))
	explicit := ""
	if name := path.Base(x.sl.Python); path.IsAbs(x.sl.Python) || name != "python" && name != "python3" {
		explicit = x.sl.Python
	}
	x.sl.Python, err = launch.FindPython(ctx, x.sl.Platform, explicit, getenv)
	return err
}

// platformOf is the platform that a program names; empty: none, or it can't be read.
func platformOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSource))
	if err != nil {
		return ""
	}
	for _, fw := range [][2]string{{"tensorflow", "TF"}, {"torch", "PYT"}} {
		for line := range strings.Lines(string(raw)) {
			words := strings.Fields(line)
			if len(words) > 1 && (words[0] == "import" || words[0] == "from") && strings.HasPrefix(words[1], fw[0]) {
				return fw[1]
			}
		}
	}
	return ""
}
