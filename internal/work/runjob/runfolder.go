package runjob

import (
	"path"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// runFolderIn is where the folder of its run is, of a member's container; empty: it has none.
func runFolderIn(x container.Summary) string {
	for _, m := range x.Mounts {
		if m.Type == mount.TypeBind && path.Dir(m.Destination) == workDir("") {
			return m.Source
		}
	}
	return ""
}
