package launch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// About is what a Python says of itself and of a platform's framework.
type About struct {
	Python    string // its version
	Module    string // of the framework: torch or tensorflow
	Framework string // its version
	GPUs      int    // devices that the framework sees
}

// Describe asks a Python what it is, with the environment of a program. It imports the platform's framework ("PYT" or "TF", any case), and
// blocks while that lasts, 60 s at most. An error is Python's last line.
func Describe(ctx context.Context, python, platform string, env []string) (About, error) {
	const ask = `import sys
print(sys.version.split()[0])
import %s as f
print(f.__version__)
print(%s)`
	module, _ := Framework(platform)
	count := map[string]string{"torch": "f.cuda.device_count() if f.cuda.is_available() else 0", "tensorflow": `len(f.config.list_physical_devices("GPU"))`}[module]
	if count == "" {
		return About{}, fmt.Errorf("describe python: platform %q is not known", platform)
	}
	out, err := runPython(ctx, python, env, "-c", fmt.Sprintf(ask, module, count))
	if err != nil {
		return About{}, err
	}
	lines := strings.Split(out, "\n")
	if len(lines) < 3 {
		return About{}, fmt.Errorf("%s says %.100q of its versions", python, out)
	}
	last := lines[len(lines)-2:] // a framework may print something as it is imported
	gpus, err := strconv.Atoi(strings.TrimSpace(last[1]))
	return About{Python: strings.TrimSpace(lines[0]), Module: module, Framework: strings.TrimSpace(last[0]), GPUs: gpus}, err
}
