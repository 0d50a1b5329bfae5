package launch

import (
	"path/filepath"
	"strings"
)

// Exports returns the shell line that gives a program which is started by hand its node, and the package; packageDir is empty if the
// program's Python must have that.
func Exports(peer, bridgeDir, packageDir string) string {
	line := "export SWARM_BRIDGE_DIR=" + quote(bridgeDir) + " SWARM_PEER=" + quote(peer)
	if packageDir != "" {
		line += " PYTHONPATH=" + quote(filepath.Clean(packageDir)) + `"${PYTHONPATH:+:$PYTHONPATH}"`
	}
	return line
}

// quote makes s one word for a POSIX shell.
func quote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
