package swci

import (
	"io/fs"

	"github.com/swarmd/swarmd/python"
)

// pythonPackage is the swarmlearning package for programs whose Python has none installed.
func pythonPackage() fs.FS { return python.Source() }
