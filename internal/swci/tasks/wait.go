package tasks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// MaxWait is for how long a taskrunner is waited for that carries out a task of a type, as the original's variables say in minutes: two hours
// if they do not.
func MaxWait(taskType string, getenv func(string) string) (time.Duration, error) {
	name := "SWCI_GENERIC_TASK_MAX_WAIT_TIME"
	if taskType == runSwarm {
		name = "SWCI_RUN_TASK_MAX_WAIT_TIME"
	}
	for _, v := range []string{name, "SWCI_TASK_MAX_WAIT_TIME"} {
		given := getenv(v)
		if given == "" {
			continue
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 365*24*60 {
			return 0, exit.New(exit.Usage, "give a number of minutes", "%s is %q", v, given)
		}
		return time.Duration(n) * time.Minute, nil
	}
	return 2 * time.Hour, nil
}

// Taskrunners shows taskrunners with what they carry out.
type Taskrunners interface {
	GetTaskrunner(ctx context.Context, name string) (*swarmv1.GetTaskrunnerResponse, error)
}

// look is how long lies between two looks at a taskrunner.
const look = time.Second

// Wait looks at a taskrunner until nothing is carried out under its name any more and nothing of it is left on hosts, for limit at most; over
// is false then. seen is called with each assignment that was seen.
func Wait(ctx context.Context, api Taskrunners, name string, limit time.Duration, seen func(*swarmv1.Assignment)) (a *swarmv1.Assignment, over bool, err error) {
	until := time.Now().Add(limit)
	for {
		r, err := api.GetTaskrunner(ctx, name)
		if err != nil {
			return nil, false, err
		}
		a = Whole(r)
		if Over(a) {
			return a, true, nil
		}
		seen(a)
		if !time.Now().Before(until) {
			return a, false, nil
		}
		if err := pause.For(ctx, look); err != nil {
			return nil, false, err
		}
	}
}

// Whole is what a taskrunner carries out: its last assignment with the hosts that have joined it, which is not over before they are. Hosts come
// in the order in which they joined, as far as the answer had room for them; those that it has none for keep their indexes.
func Whole(r *swarmv1.GetTaskrunnerResponse) *swarmv1.Assignment {
	all := slices.Concat(r.GetJoined(), r.GetEnded())
	if r.GetAssignment() == nil || len(all) == 0 {
		return r.GetAssignment()
	}
	slices.SortStableFunc(all, func(x, y *swarmv1.Assignment) int {
		return cmp.Or(cmp.Compare(x.GetCreatedUnixMs(), y.GetCreatedUnixMs()), cmp.Compare(x.GetId(), y.GetId()))
	})
	a := proto.CloneOf(r.GetAssignment())
	for _, joined := range all {
		next := joined.GetFirstIndex()
		if next == 0 { // an SN of before does not say it
			next = uint32(len(a.GetMembers())) //nolint:gosec // an answer has no so many
		}
		for i, m := range joined.GetMembers() {
			m = proto.CloneOf(m)
			m.Index = next + uint32(i) //nolint:gosec // likewise
			a.Members = append(a.Members, m)
		}
		a.ActivePeers += joined.GetActivePeers()
		a.CompletedPeers += joined.GetCompletedPeers()
		a.FailedPeers += joined.GetFailedPeers()
	}
	if a.GetPhase() == "over" && len(r.GetJoined()) > 0 {
		a.Phase = "ending"
	}
	return a
}

// Over reports whether nothing of an assignment is left; nil is none.
func Over(a *swarmv1.Assignment) bool { return a == nil || a.GetPhase() == "over" }

// Resetter resets taskrunners.
type Resetter interface {
	Taskrunners
	ResetTaskrunner(ctx context.Context, name, reason string) (*swarmv1.Taskrunner, error)
}

// ResetWait bounds waiting for hosts to clean up after a reset.
const ResetWait = time.Minute

// Reset cancels what a taskrunner carries out, and returns when it is idle; idle is false if hosts still clean up after ResetWait.
func Reset(ctx context.Context, api Resetter, name, why string, seen func(*swarmv1.Assignment)) (idle bool, err error) {
	if _, err := api.ResetTaskrunner(ctx, name, why); err != nil {
		return false, err
	}
	a, over, err := Wait(ctx, api, name, ResetWait, seen)
	if err != nil || !over {
		return false, err
	}
	if a != nil { // it had its verdict when it was reset
		_, err = api.ResetTaskrunner(ctx, name, why)
	}
	return err == nil, err
}

// Bar shows how far an assignment is, in one line. In fewer columns its picture is smaller, or left out: the words say more.
func Bar(a *swarmv1.Assignment, since time.Duration, columns int) string {
	var needed uint32
	for _, g := range a.GetGroups() {
		needed += g.GetLeast()
	}
	needed = max(needed, 1)
	said := a.GetPhase()
	if a.GetWants() != "" {
		said += ": " + a.GetWants()
	}
	said = fmt.Sprintf("%d of %d peers, %v, %s", a.GetCompletedPeers(), needed, since.Round(time.Second), said)
	const widest, least = 30, 5
	width := min(widest, columns-utf8.RuneCountInString(said)-len("[] "))
	if width < least {
		return said
	}
	full := int(uint64(width) * uint64(min(a.GetCompletedPeers(), needed)) / uint64(needed))
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", width-full), said)
}

// State is that of a taskrunner's task in the original's words: it ends when nothing of it is left on hosts.
func State(a *swarmv1.Assignment) string {
	switch {
	case a == nil:
		return "IDLE"
	case a.GetVerdict() != "" && !Over(a):
		return "RUNNING"
	}
	return a.GetStatus()
}
