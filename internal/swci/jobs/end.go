package jobs

import (
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// Losses say of members of a run that has succeeded what of them was lost by the time that nothing of them was left, as a last copy of artifacts that
// failed: the verdict was given before.
func Losses(a *swarmv1.Assignment) (lines []string) {
	for _, m := range a.GetMembers() {
		if m.GetState() == "stopped" && m.GetCode() != 0 {
			lines = append(lines, fmt.Sprintf("%s: %s", who(a, m), m.GetText()))
		}
	}
	return lines
}
