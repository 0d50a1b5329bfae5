package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoneImports is in FindPython's error if there is a Python, but none with the platform's framework; errors.Is. A program may be
// of the other platform.
var ErrNoneImports = errors.New("none imports")

const pythonLimit = 60 * time.Second

// frameworks are what each --sl-platform, and each --platform of local runs, needs: the module that a Python must be able to import, and how to get it.
var frameworks = map[string]struct{ module, remedy string }{
	"PYT":     {"torch", "apt-get install python3-torch, or pip install torch"},
	"TF":      {"tensorflow", "pip install tensorflow-cpu"},
	"HF":      {"transformers", "pip install transformers accelerate torch"},
	"SKLEARN": {"sklearn", "apt-get install python3-sklearn, or pip install scikit-learn"},
	"NUMPY":   {"numpy", "apt-get install python3-numpy, or pip install numpy"},
}

// Framework returns the Python module that a platform (such as "PYT", any case) is for, and how to get it; nothing if the
// platform is not known.
func Framework(platform string) (module, remedy string) {
	fw := frameworks[strings.ToUpper(platform)]
	return fw.module, fw.remedy
}

// FindPython returns the Python that runs programs of the platform (such as "PYT", any case; empty: no framework is
// asked for): explicit if not empty, else SWARM_PYTHON, else the first of python3 in PATH and /usr/bin/python3 that
// imports the framework. A chosen one must only exist: its owner knows. It blocks while Python imports, at most 60 s each.
func FindPython(ctx context.Context, platform, explicit string, getenv func(string) string) (string, error) {
	fw, known := frameworks[strings.ToUpper(platform)]
	if !known && platform != "" {
		return "", fmt.Errorf("find python: platform %q is not known: use %s", platform, strings.Join(slices.Sorted(maps.Keys(frameworks)), ", "))
	}
	return FindImporting(ctx, fw.module, fw.remedy, explicit, getenv)
}

// FindImporting is FindPython for a module that is to be imported, or none; remedy is how to get it.
func FindImporting(ctx context.Context, module, remedy, explicit string, getenv func(string) string) (string, error) {
	flag := "--python"
	if explicit == "" {
		explicit, flag = getenv("SWARM_PYTHON"), "SWARM_PYTHON"
	}
	if explicit != "" {
		path, err := exec.LookPath(explicit)
		if err != nil {
			return "", fmt.Errorf("find python: %s names %s: %w: name a python3 executable", flag, explicit, err)
		}
		return filepath.Abs(path)
	}
	var tried, asked []string
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			tried = append(tried, name+": not found")
			continue
		}
		if slices.Contains(asked, path) {
			continue // PATH leads there too
		}
		asked = append(asked, path)
		if err := tryImport(ctx, path, module); err != nil {
			if ctx.Err() != nil {
				return "", fmt.Errorf("find python: %w", ctx.Err())
			}
			tried = append(tried, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		return filepath.Abs(path)
	}
	if module == "" {
		return "", fmt.Errorf("find python: none works (%s): apt-get install python3", strings.Join(tried, "; "))
	}
	return "", fmt.Errorf("find python: %w %s (%s): %s, or name another python with --python or SWARM_PYTHON",
		ErrNoneImports, module, strings.Join(tried, "; "), remedy)
}

func tryImport(ctx context.Context, python, module string) error {
	code := "pass"
	if module != "" {
		code = "import " + module
	}
	_, err := runPython(ctx, python, os.Environ(), "-c", code)
	return err
}

// runPython runs a short check, away from the user's directories, whose files could shadow modules.
func runPython(ctx context.Context, python string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pythonLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", env, time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("no answer within %s", pythonLimit)
	case err != nil:
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		if last := lines[len(lines)-1]; last != "" {
			return "", errors.New(strings.ToValidUTF8(last, "\uFFFD")) // Python's exceptions end with what went wrong
		}
		return "", err
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Package is where a program gets the swarmlearning package from. The zero value is a Python that has it.
type Package struct {
	Path    string // what PYTHONPATH gains
	Foreign string // the folder of another package of that name, which Path comes before; empty: there is none
}

// Join returns PYTHONPATH with the package: own is what the user set, which comes first unless it has the foreign one.
func (p Package) Join(own string) string {
	parts := []string{own, p.Path}
	if p.Foreign != "" {
		slices.Reverse(parts)
	}
	return strings.Trim(strings.Join(parts, string(os.PathListSeparator)), string(os.PathListSeparator))
}

// FindPackage finds out what a program in the folder beside must have in PYTHONPATH to import this project's swarmlearning
// package: nothing if the given Python has it, else a folder of dir that source (the embedded package) is extracted to. The
// folder is named by its content, so it is written once and daemons of different versions can share dir. env is the program's
// environment. A package of another maker beside the program, which Python would import whatever PYTHONPATH says, is an error.
func FindPackage(ctx context.Context, python string, env []string, beside string, source fs.FS, dir string) (Package, error) {
	// The package is not imported: another maker's code would run.
	const find = `import importlib.util as u
s = u.find_spec("swarmlearning")
print(next(iter(s.submodule_search_locations or [s.origin])) if s else "")`
	if found := shadowing(beside); found != "" {
		return Package{}, fmt.Errorf("%s is not this project's swarmlearning package, and the program beside it would import it: move it to another folder, or say --ml-client original if it is the original's client", found)
	}
	found, err := runPython(ctx, python, env, "-c", find)
	if err != nil {
		return Package{}, fmt.Errorf("ask %s for the swarmlearning package: %w", python, err)
	}
	if found != "" && ours(found) {
		return Package{}, nil
	}
	path, err := Extract(source, dir)
	if err != nil {
		return Package{}, err
	}
	return Package{Path: path, Foreign: found}, nil
}

// shadowing returns the module or package of another maker in a program's folder, which Python looks through first.
func shadowing(folder string) string {
	dir, module := filepath.Join(folder, "swarmlearning"), filepath.Join(folder, "swarmlearning.py")
	if _, err := os.Stat(filepath.Join(dir, "__init__.py")); err == nil && !ours(dir) {
		return dir
	}
	if _, err := os.Stat(module); err == nil {
		return module
	}
	return ""
}

// ours reports whether a package is this project's, by a module that each of its versions has and the original's has not.
func ours(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "_params.py"))
	return err == nil
}

// Extract copies source, the embedded package, to a folder of dir whose name is the digest of its content, and returns that folder.
func Extract(source fs.FS, dir string) (string, error) {
	path, err := extract(source, dir)
	if err != nil {
		return "", fmt.Errorf("extract the swarmlearning package: %w", err)
	}
	return path, nil
}

func extract(source fs.FS, dir string) (string, error) {
	digest, err := digestOf(source)
	if err != nil {
		return "", err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, "swarmlearning-"+digest[:16])
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// A daemon that dies while it copies must not leave a folder that looks whole.
	work, err := os.MkdirTemp(dir, ".extract-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, source); err != nil {
		return "", err
	}
	if err := os.Rename(work, target); err != nil {
		if _, statErr := os.Stat(target); statErr == nil {
			return target, nil // another daemon was faster
		}
		return "", err
	}
	return target, nil
}

func digestOf(source fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s\x00%d\x00", path, len(b))
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
