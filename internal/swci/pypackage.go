package swci

import "io/fs"

// pythonPackage is the swarmlearning package for programs whose Python has none installed.
func pythonPackage() fs.FS { return nil }
