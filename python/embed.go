// Package python holds the source of the Python packages that ML programs import, so that a node can offer them to a
// Python that has not got them installed.
package python

import (
	"embed"
	"io/fs"
)

// The patterns name files, not folders: so __init__.py is in (a folder's pattern leaves out names with an underscore) and
// what Python caches beside the source is not.
//
//go:embed src/swarmlearning/*.py src/swarmlearning/py.typed src/swarm/*.py src/swarm/py.typed
var files embed.FS

// Source returns the packages' source: a folder for PYTHONPATH, with swarmlearning and swarm in it. Read-only.
func Source() fs.FS {
	source, err := fs.Sub(files, "src")
	if err != nil {
		panic(err) // the pattern above begins with src
	}
	return source
}
