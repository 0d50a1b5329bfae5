package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/pause"
)

// pauseOf is how long lies between two looks at a job: short, as an epoch that fails and its end are to be seen, and longer where an answer is large.
func pauseOf(a *swarmv1.Assignment) time.Duration {
	if len(a.GetMembers()) > 64 {
		return time.Second
	}
	return 250 * time.Millisecond
}

// FollowRun looks at an assignment of a job until nothing of it is left on hosts, and shows it with what has become of it since the last look.
func FollowRun(ctx context.Context, get func(context.Context) (*swarmv1.Assignment, error), seen func(a *swarmv1.Assignment, news []string)) (*swarmv1.Assignment, error) {
	var before *swarmv1.Assignment
	for {
		a, err := get(ctx)
		if err != nil {
			return before, err
		}
		seen(a, news(before, a))
		if a.GetPhase() == "over" {
			return a, nil
		}
		before = a
		if err := pause.For(ctx, pauseOf(a)); err != nil {
			return before, err
		}
	}
}

// news says in lines what has become of an assignment since it was seen last; before is nil the first time.
func news(before, a *swarmv1.Assignment) (lines []string) {
	if a.GetEpoch() != before.GetEpoch() && len(a.GetMembers()) > 0 {
		lines = append(lines, placed(a))
		before = &swarmv1.Assignment{Phase: before.GetPhase(), Wants: before.GetWants(), Verdict: before.GetVerdict()}
	}
	for i, m := range a.GetMembers() {
		was := &swarmv1.AssignmentMember{}
		if i < len(before.GetMembers()) {
			was = before.GetMembers()[i]
		}
		if line := fate(m); line != "" && (m.GetState() != was.GetState() || m.GetText() != was.GetText()) {
			lines = append(lines, fmt.Sprintf("%s %s", who(a, m), line))
		}
	}
	if ready, was := readyWords(a), readyWords(before); ready != was && ready != "" {
		lines = append(lines, ready)
	}
	if state, was := StateWords(a), StateWords(before); state != was && state != "waiting" && a.GetPhase() != "over" { // whoever follows says how it ended
		if a.GetPhase() == "ending" {
			state = "ending: its members are ended" // whoever follows says why
		}
		lines = append(lines, state)
	}
	return lines
}

// who is a member: its group, its rank in the job, and its host.
func who(a *swarmv1.Assignment, m *swarmv1.AssignmentMember) string {
	return fmt.Sprintf("%s/%d %s", m.GetGroup(), Rank(a, m), m.GetNode())
}

// placed says which host has which members.
func placed(a *swarmv1.Assignment) string {
	on := map[string][]string{}
	var hosts []string
	for _, m := range a.GetMembers() {
		if on[m.GetNode()] == nil {
			hosts = append(hosts, m.GetNode())
		}
		on[m.GetNode()] = append(on[m.GetNode()], fmt.Sprintf("%s/%d", m.GetGroup(), Rank(a, m)))
	}
	slices.Sort(hosts)
	for i, h := range hosts {
		hosts[i] = h + " has " + strings.Join(on[h], " ")
	}
	again := ""
	if a.GetEpoch() > 1 {
		again = fmt.Sprintf(" again, restart %d of %d", a.GetEpoch()-1, a.GetRetries())
	}
	return "placed" + again + ": " + strings.Join(hosts, "; ")
}

// fate is what a member has come to that an operator wants to know of at once.
func fate(m *swarmv1.AssignmentMember) string {
	said := ""
	if m.GetText() != "" {
		said = ": " + m.GetText()
	}
	switch m.GetState() {
	case "exited":
		return fmt.Sprintf("exited with code %d%s", m.GetCode(), said)
	case "refused", "lost":
		return m.GetState() + said
	case "stopped":
		if said != "" {
			return "was ended" + said
		}
	case "asked":
		if said != "" {
			return "waits" + said
		}
	}
	return ""
}

// readyWords count the members that are ready, until all are or the first has ended.
func readyWords(a *swarmv1.Assignment) string {
	ready, all := 0, len(a.GetMembers())
	for _, m := range a.GetMembers() {
		switch m.GetState() {
		case "ready":
			ready++
		case "exited", "refused", "lost", "stopped":
			return ""
		}
	}
	switch {
	case a.GetPhase() != "running" || ready == 0:
		return ""
	case ready == all:
		return "all members are ready"
	}
	return fmt.Sprintf("%d of %d members are ready", ready, all)
}

// StateWords say where an assignment stands.
func StateWords(a *swarmv1.Assignment) string {
	said := a.GetPhase()
	if a.GetWants() != "" {
		said += ": " + a.GetWants()
	}
	if a.GetVerdict() != "" {
		said = a.GetVerdict()
		if a.GetReason() != "" {
			said += ": " + a.GetReason()
		}
		if a.GetPhase() != "over" {
			said = "ending, " + said
		}
	}
	return said
}
