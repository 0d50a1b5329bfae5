package shell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	// DefaultScript is the startup script that is run when there is one.
	DefaultScript = "swci-init"
	maxScript     = 1 << 20 // bytes
)

// userDirs are where scripts for the original look for the user directory.
var userDirs = []string{"/platform/swci/usr", "/platform/swarm/usr"}

func (c Config) scriptName() string {
	if c.Script != "" {
		return c.Script
	}
	return DefaultScript
}

// script reads the startup script. One that was not asked for may be absent.
func (c Config) script() (text string, found bool, err error) {
	if c.Script == "" && c.Dir == "" {
		return "", false, nil
	}
	bad := exit.New(exit.Failed, "it must be a file directly in the folder that --usr-dir names", "--init-script-name: %s: bad file", c.Script)
	if c.Dir == "" || c.Script != "" && filepath.Base(c.Script) != c.Script {
		return "", false, bad
	}
	f, err := os.Open(filepath.Join(c.Dir, c.scriptName()))
	if err != nil {
		if c.Script == "" {
			return "", false, nil
		}
		return "", false, bad
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false, bad
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil {
		return "", false, fmt.Errorf("read startup script: %w", err)
	}
	if len(data) > maxScript {
		return "", false, exit.New(exit.Failed, "", "startup script %s has more than %d bytes", c.scriptName(), maxScript)
	}
	return string(data), true, nil
}

// CheckScript fails when the startup script that cfg names can't be run.
func CheckScript(dir, script string) error {
	_, _, err := Config{Dir: dir, Script: script}.script()
	return err
}

// Chdir makes path the working directory. The user directory is also known by its names in the original's containers.
func (s *Shell) Chdir(path string) error {
	path = s.Path(path)
	if s.cfg.OwnDir {
		return s.enter(path)
	}
	if err := os.Chdir(path); err != nil {
		return fmt.Errorf("change directory: %w", err)
	}
	return nil
}

// enter makes path the shell's own working directory.
func (s *Shell) enter(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("change directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("change directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("change directory: %s is not a directory", path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = abs
	return nil
}

// Getwd returns the working directory.
func (s *Shell) Getwd() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir, nil
	}
	return os.Getwd()
}

// Path is path for the process: in the working directory if it is not absolute, and on this host where it begins with a name of the user
// directory in the original's containers.
func (s *Shell) Path(path string) string {
	for _, d := range userDirs {
		rest, inside := strings.CutPrefix(filepath.Clean(path), d)
		if inside && s.cfg.Dir != "" && (rest == "" || rest[0] == '/') {
			return filepath.Join(s.cfg.Dir, rest)
		}
	}
	if s.cfg.OwnDir && !filepath.IsAbs(path) {
		return s.near(path)
	}
	return path
}

// near is what is at path in the shell's own working directory, as short as can be: it stands in messages.
func (s *Shell) near(path string) string {
	dir, err := s.Getwd()
	if err != nil {
		return path
	}
	here, err := os.Getwd()
	if err != nil {
		return filepath.Join(dir, path)
	}
	if rel, err := filepath.Rel(here, filepath.Join(dir, path)); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return filepath.Join(dir, path)
}

// Inside reports whether path is of something that is in the user directory, links followed, or is the directory.
func (s *Shell) Inside(path string) bool {
	if s.cfg.Dir == "" {
		return false
	}
	dir, err := filepath.EvalSymlinks(s.cfg.Dir)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(s.Path(path)); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return err == nil && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}
