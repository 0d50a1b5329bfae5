package jobs

import (
	"fmt"
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// Rank is the rank of a member in its job. Of one beside an SL the first has rank 1: the SL runs rank 0 itself.
func Rank(a *swarmv1.Assignment, m *swarmv1.AssignmentMember) uint32 {
	return m.GetIndex() + uint32(runByOthers(a)) //nolint:gosec // 0 or 1
}

// runByOthers is how many ranks of a job are no members of it: they come before these.
func runByOthers(a *swarmv1.Assignment) int {
	if a.GetBeside() != "" {
		return 1
	}
	return 0
}

// Whole is the whole name of a member, HOST/GROUP/RANK.
func Whole(a *swarmv1.Assignment, m *swarmv1.AssignmentMember) string {
	return fmt.Sprintf("%s/%s/%d", m.GetNode(), m.GetGroup(), Rank(a, m))
}

// MemberNamed is the member of a run that RANK, GROUP/RANK or HOST/GROUP/RANK names, and the port behind it.
func MemberNamed(a *swarmv1.Assignment, name string) (m *swarmv1.AssignmentMember, port uint16, err error) {
	at, number, found := strings.Cut(name, ":")
	n, err := strconv.ParseUint(number, 10, 16)
	if !found || err != nil || n == 0 {
		return nil, 0, exit.New(exit.Usage, "name a member and a port, as in scheduler/0:8787", "%s names no port", name)
	}
	words := strings.Split(at, "/")
	rank := words[len(words)-1]
	for _, m := range a.GetMembers() {
		of := []string{m.GetNode(), m.GetGroup(), fmt.Sprint(Rank(a, m))}
		if len(words) <= len(of) && strings.Join(of[len(of)-len(words):], "/") == at {
			return m, uint16(n), nil
		}
	}
	hint := "swarmctl get job status " + Whose(a) + " shows its members"
	if len(a.GetMembers()) == 0 {
		return nil, 0, exit.New(exit.NotFound, hint, "the job has no members yet: it is %s", text.Line(StateWords(a)))
	}
	for _, m := range a.GetMembers() {
		if rank == fmt.Sprint(Rank(a, m)) {
			return nil, 0, exit.New(exit.NotFound, hint, "the job has no member %s: of rank %s is %s", at, rank, text.Line(Whole(a, m)))
		}
	}
	if sl := a.GetBeside(); sl != "" && rank == "0" {
		return nil, 0, exit.New(exit.NotFound, hint, "rank 0 of the job is no member of it: SL %s runs it itself", text.Line(sl))
	}
	return nil, 0, exit.New(exit.NotFound, hint, "the job has no member %s: name one by its rank, as GROUP/RANK, or as HOST/GROUP/RANK", at)
}
