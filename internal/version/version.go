// Package version tells which version a binary is of.
package version

import "runtime/debug"

// Info is what a binary was built as.
type Info struct {
	Version string // as tagged, or devel
	Commit  string // first 12 digits, or unknown
	Go      string // the Go release that built it; empty if nothing is known
}

// String is the version with its commit, in a line: "v1.2.3 (0123456789ab)".
func (v Info) String() string { return v.Version + " (" + v.Commit + ")" }

// Read returns what this binary was built as.
func Read() Info {
	v := Info{Version: "devel", Commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}
