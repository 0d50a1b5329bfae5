package start

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Paths of this host that containers get. They are checked before anything is made, in the original's words: an option, its
// value, "bad path".

// pathError says what is wrong with a path: `--data-dir: /x: bad path: it does not exist; create it or …`.
func pathError(option, value, kind string, err error, remedy string) error {
	why := err.Error()
	var inner *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		why = "this user may not look at it"
	case errors.As(err, &inner):
		why = inner.Err.Error()
	}
	return fmt.Errorf("--%s: %s: bad %s: %s; %s", option, value, kind, why, remedy)
}

// HostDir returns the absolute path of a directory that must be there and accessible (unix.R_OK …) to this user.
func HostDir(option, dir, kind string, access uint32) (string, error) {
	remedy := "name a directory of this host"
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is a file")
	}
	if err == nil && unix.Access(dir, access) != nil {
		err, remedy = errors.New("this user has not the permissions"), "change them or name another directory"
	}
	if err != nil {
		return "", pathError(option, dir, kind, err, remedy)
	}
	return filepath.Abs(dir)
}

// HostFile returns the absolute path of a file that must be there.
func HostFile(option, file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err != nil {
		return "", pathError(option, file, "file", err, "name a file of this host")
	}
	return filepath.Abs(file)
}

// hostSocket holds that a unix socket is there.
func hostSocket(option, file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = errors.New("it is no socket")
	}
	if err != nil {
		return pathError(option, file, "file", err, "name the socket of an engine that runs")
	}
	return nil
}

// mount reads HOST-PATH:CONTAINER-PATH[:MODE] and returns it with an absolute host path. The host path must be there: an
// engine would make an empty directory of root's in its place.
func mount(option, given string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("--%s: %s: bad mount: %s", option, given, why)
	}
	v, err := engine.ParseVolume(given)
	if err != nil {
		return bad(err.Error())
	}
	if v.Named() {
		return given, nil
	}
	if _, err := os.Stat(v.Source); err != nil {
		return "", pathError(option, given, "mount", err, "create "+v.Source+" or name another path of this host")
	}
	abs, err := filepath.Abs(v.Source)
	if err != nil {
		return "", err
	}
	if strings.Contains(abs, ":") {
		return bad("the absolute path " + abs + " has a colon, which engines can't take: move it")
	}
	return abs + strings.TrimPrefix(given, v.Source), nil
}

// mounts is mount for each.
func mounts(option string, given []string) ([]string, error) {
	var out []string
	for _, g := range given {
		m, err := mount(option, g)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
