package jobs

import (
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// Losses say of members of a run that has succeeded what of them was lost by the time that nothing of them was left, as a last copy of artifacts that
// failed: the verdict was given before. copied says that the job has its artifacts copied.
func Losses(a *swarmv1.Assignment, copied bool) (lines []string) {
	for _, m := range a.GetMembers() {
		why := ""
		switch m.GetState() {
		case "stopped":
			if m.GetCode() != 0 {
				why = m.GetText()
			}
		case "exited":
			if copied && m.GetCode() < 0 { // its host has failed, not its program
				why = m.GetText()
			}
		case "lost":
			if copied {
				why = "its host was lost before it has told of the last copy"
			}
		}
		if why != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", who(a, m), why))
		}
	}
	return lines
}
