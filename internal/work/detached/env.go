package detached

import (
	"os"

	"github.com/swarmd/swarmd/internal/registry"
)

// Passed are the variables of this process's own that one of its kind needs which it starts, as NAME=VALUE: where what runs is registered, whatever
// that is by default there, and those of names that are set.
func Passed(names ...string) (all []string) {
	if dir, err := registry.Dir(os.Getenv); err == nil {
		all = append(all, "SWARM_RUN_DIR="+dir)
	}
	for _, name := range names {
		if value, is := os.LookupEnv(name); is {
			all = append(all, name+"="+value)
		}
	}
	return all
}
