package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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

// hostDir returns the absolute path of a directory that must be there and accessible (unix.R_OK …) to this user.
func hostDir(option, dir, kind string, access uint32) (string, error) {
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

// hostFile returns the absolute path of a file that must be there.
func hostFile(option, file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err != nil {
		return "", pathError(option, file, "file", err, "name a file of this host")
	}
	return filepath.Abs(file)
}

// volumeName is what a mount's source is that names a volume of the engine, not a path.
var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// mount reads HOST-PATH:CONTAINER-PATH[:MODE] and returns it with an absolute host path. The host path must be there: an
// engine would make an empty directory of root's in its place.
func mount(option, given string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("--%s: %s: bad mount: %s", option, given, why)
	}
	parts := strings.Split(given, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return bad("want HOST-PATH:CONTAINER-PATH or HOST-PATH:CONTAINER-PATH:ro")
	}
	if !path.IsAbs(parts[1]) {
		return bad("the path in the container, " + parts[1] + ", must begin with /")
	}
	for m := range strings.SplitSeq(strings.Join(parts[2:], ""), ",") {
		if !slices.Contains([]string{"", "ro", "rw", "z", "Z"}, m) {
			return bad("want :ro or :rw, not :" + m)
		}
	}
	if volumeName.MatchString(parts[0]) {
		return given, nil
	}
	if _, err := os.Stat(parts[0]); err != nil {
		return "", pathError(option, given, "mount", err, "create "+parts[0]+" or name another path of this host")
	}
	abs, err := filepath.Abs(parts[0])
	if err != nil {
		return "", err
	}
	if strings.Contains(abs, ":") {
		return bad("the absolute path " + abs + " has a colon, which engines can't take: move it")
	}
	parts[0] = abs
	return strings.Join(parts, ":"), nil
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
