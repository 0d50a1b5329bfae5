package jobs

import (
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

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
		of := []string{m.GetNode(), m.GetGroup(), strconv.FormatUint(uint64(m.GetIndex()), 10)}
		if len(words) <= len(of) && strings.Join(of[len(of)-len(words):], "/") == at {
			return m, uint16(n), nil
		}
	}
	hint := "swarmctl get job status " + Whose(a) + " shows its members"
	if len(a.GetMembers()) == 0 {
		return nil, 0, exit.New(exit.NotFound, hint, "the job has no members yet: it is %s", text.Line(StateWords(a)))
	}
	for _, m := range a.GetMembers() {
		if rank == strconv.FormatUint(uint64(m.GetIndex()), 10) {
			return nil, 0, exit.New(exit.NotFound, hint, "the job has no member %s: of rank %s is %s", at, rank, text.Line(m.GetNode()+"/"+m.GetGroup()+"/"+rank))
		}
	}
	return nil, 0, exit.New(exit.NotFound, hint, "the job has no member %s: name one by its rank, as GROUP/RANK, or as HOST/GROUP/RANK", at)
}
