package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// EnvConfig is what a program's environment is made of.
type EnvConfig struct {
	// Inherit is the daemon's own environment (os.Environ). All of it is passed on (PATH, HOME, CUDA_*, OMP_*, proxies …)
	// but the variables that configure the daemon or give it access: SPIFFE_*, SWARM_*, and systemd's NOTIFY_SOCKET,
	// LISTEN_* and CREDENTIALS_DIRECTORY.
	Inherit   []string
	DataDir   string  // DATA_DIR, empty: not set
	ModelDir  string  // MODEL_DIR, likewise
	BridgeDir string  // SWARM_BRIDGE_DIR, likewise
	Peer      string  // SWARM_PEER, likewise
	Package   Package // see FindPackage
	// Extra are the user's -e options, "K=V" or "K" (the daemon's own value, if it has one). Later ones win, and they win
	// over everything else.
	Extra []string
}

// ProgramEnv composes the environment of a program, each variable once. Its error names an option of Extra.
func ProgramEnv(c EnvConfig) ([]string, error) {
	env := &environment{index: make(map[string]int)}
	inherited := make(map[string]string, len(c.Inherit))
	for _, kv := range c.Inherit {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			continue
		}
		inherited[k] = v
		if !private(k) {
			env.set(k, v)
		}
	}
	env.set("PYTHONUNBUFFERED", "1") // lines must come as they are printed
	for _, kv := range [][2]string{{"DATA_DIR", c.DataDir}, {"MODEL_DIR", c.ModelDir}, {"SWARM_BRIDGE_DIR", c.BridgeDir}, {"SWARM_PEER", c.Peer}} {
		if kv[1] != "" {
			env.set(kv[0], kv[1])
		}
	}
	for _, kv := range c.Extra {
		k, v, ok := strings.Cut(kv, "=")
		if k == "" || strings.ContainsRune(kv, 0) {
			return nil, fmt.Errorf("environment option %q is not KEY=VALUE or KEY", kv)
		}
		if !ok {
			if v, ok = inherited[k]; !ok {
				continue
			}
		}
		env.set(k, v)
	}
	if c.Package.Path != "" {
		env.set("PYTHONPATH", c.Package.Join(env.get("PYTHONPATH")))
	}
	return env.list, nil
}

// LastWins joins lists of K=V: each variable once, with its last value, in the order of their first.
func LastWins(lists ...[]string) []string {
	env := &environment{index: make(map[string]int)}
	for _, kv := range slices.Concat(lists...) {
		k, _, _ := strings.Cut(kv, "=")
		env.put(k, kv)
	}
	return env.list
}

// private reports whether a variable is the daemon's own business.
func private(key string) bool {
	return strings.HasPrefix(key, "SPIFFE_") || strings.HasPrefix(key, "SWARM_") || strings.HasPrefix(key, "LISTEN_") ||
		key == "NOTIFY_SOCKET" || key == "CREDENTIALS_DIRECTORY"
}

type environment struct {
	list  []string
	index map[string]int
}

func (e *environment) set(k, v string) { e.put(k, k+"="+v) }

func (e *environment) put(k, kv string) {
	if i, ok := e.index[k]; ok {
		e.list[i] = kv
		return
	}
	e.index[k] = len(e.list)
	e.list = append(e.list, kv)
}

func (e *environment) get(k string) string {
	i, ok := e.index[k]
	if !ok {
		return ""
	}
	return e.list[i][len(k)+1:]
}

// CheckProgram finds what would keep a program from running before anything is started: modelDir must be a directory
// that can be written, dataDir (if not empty) one that can be read, program (if not empty) a readable file, relative to
// modelDir or absolute. All that is wrong is reported at once.
func CheckProgram(modelDir, dataDir, program string) error {
	errs := []error{checkDir("model", "--model-dir", modelDir, unix.R_OK|unix.W_OK|unix.X_OK)}
	if dataDir != "" {
		errs = append(errs, checkDir("data", "--data-dir", dataDir, unix.R_OK|unix.X_OK))
	}
	if program != "" && errs[0] == nil {
		errs = append(errs, checkFile(modelDir, program))
	}
	return errors.Join(errs...)
}

func checkDir(what, flag, dir string, access uint32) error {
	if dir == "" {
		return fmt.Errorf("%s directory is not given: name it with %s", what, flag)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s directory %s does not exist: create it or change %s", what, dir, flag)
	case err != nil:
		return fmt.Errorf("look at %s directory: %w", what, err)
	case !info.IsDir():
		return fmt.Errorf("%s directory %s is a file: name its directory with %s", what, dir, flag)
	}
	if unix.Access(dir, access) != nil {
		return fmt.Errorf("%s directory %s is not accessible to this user: change its permissions or %s", what, dir, flag)
	}
	return nil
}

func checkFile(modelDir, program string) error {
	path := program
	if !filepath.IsAbs(path) {
		path = filepath.Join(modelDir, program)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("program %s does not exist: put it into the model directory or change --model-program", path)
	case err != nil:
		return fmt.Errorf("look at program: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("program %s is not a file: change --model-program", path)
	}
	if unix.Access(path, unix.R_OK) != nil {
		return fmt.Errorf("program %s can not be read by this user: change its permissions", path)
	}
	return nil
}

// LogFile returns where a program's output is kept in its model directory: <program-name>_sw.log, as users of the
// original know it.
func LogFile(modelDir, program string) string {
	base := filepath.Base(program)
	return filepath.Join(modelDir, strings.TrimSuffix(base, filepath.Ext(base))+"_sw.log")
}
