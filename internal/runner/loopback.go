package runner

import (
	"slices"
	"strings"
)

// trainsAlone reports whether the program is told to train without the swarm, by SWARM_LOOPBACK as the Python package reads it: it opens
// no session then. The last of several holds.
func (s *Spec) trainsAlone() bool {
	env := s.Env
	if s.ML != nil {
		env = s.ML.Env
	}
	for _, v := range slices.Backward(env) {
		if value, is := strings.CutPrefix(v, "SWARM_LOOPBACK="); is {
			return slices.Contains([]string{"true", "1", "yes"}, strings.ToLower(strings.TrimSpace(value)))
		}
	}
	return false
}
