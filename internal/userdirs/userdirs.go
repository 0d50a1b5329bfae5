// Package userdirs says where swarmd and swarmctl keep what belongs to a user or to root, unless they are told otherwise. Environment variables are
// those of the XDG base directories; a relative path in one counts as none, as their specification says.
package userdirs

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrNone reports that no variable names a directory.
var ErrNone = errors.New("no directory for state: set HOME or XDG_STATE_HOME to an absolute path")

// Dirs looks directories up for one user.
type Dirs struct {
	Getenv func(string) string
	Root   bool // the user is root
}

// Of returns the directories of the user who runs this.
func Of(getenv func(string) string) Dirs { return Dirs{getenv, os.Geteuid() == 0} }

// User is where the user's own state is, such as contexts: $XDG_STATE_HOME, else ~/.local/state, for root too. Errors are ErrNone.
func (d Dirs) User() (string, error) {
	if dir := d.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := d.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state"), nil
	}
	return "", ErrNone
}

// Nodes is where nodes keep their state directories: /var/lib/swarmd for root, else swarmd in User.
func (d Dirs) Nodes() (string, error) {
	if d.Root {
		return "/var/lib/swarmd", nil
	}
	dir, err := d.User()
	return filepath.Join(dir, "swarmd"), err
}

// SPIREServer is where run-spire-server keeps its state, among the nodes.
func (d Dirs) SPIREServer() (string, error) {
	dir, err := d.Nodes()
	return filepath.Join(dir, "spire-server"), err
}

// Authority is the embedded authority's directory, and Components that of the list of running components. What is there need not survive
// a reboot: /run/swarmd for root, else $XDG_RUNTIME_DIR, else among the nodes.
func (d Dirs) Authority() (string, error) { return d.running("authority") }

// Components is said at Authority.
func (d Dirs) Components() (string, error) { return d.running("components") }

func (d Dirs) running(what string) (string, error) {
	if d.Root {
		return filepath.Join("/run/swarmd", what), nil
	}
	if dir := d.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "swarmd", what), nil
	}
	dir, err := d.Nodes()
	return filepath.Join(dir, what), err
}
