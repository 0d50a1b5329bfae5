package swci

import (
	"context"
	"fmt"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
)

func assignmentCommands() []*Command {
	return []*Command{{
		Pattern: "list assignments", Group: "Tasks", Shell: true,
		Summary: "List which tasks were handed to hosts, and how that ended",
		Details: "Shows the assignments that are under way, and the last 256 that are over, those first that were made first: the task, its taskrunner, who asked for it, and the verdict. \"get taskrunner status\" shows more of a taskrunner's last one; older ones stand in the ledger, which \"audit\" shows.",
		Example: "list assignments",
		JSON:    assignmentsJSON{},
		Run:     listAssignments,
	}}
}

// assignmentsJSON is `list assignments -o json`.
type assignmentsJSON struct {
	Assignments []assignmentRowJSON `json:"assignments" doc:"those first that were made first"`
	LeftOut     uint32              `json:"left_out" doc:"of those that are over the oldest, for which the SN's answer has no room"`
}

// assignmentRowJSON is a row of `list assignments -o json`.
type assignmentRowJSON struct {
	ID         string  `json:"id" doc:"the original's OPERATION_ID"`
	Task       string  `json:"task" doc:"that is carried out"`
	TaskType   string  `json:"task_type" doc:"the task's; empty: it was deleted"`
	Digest     string  `json:"digest" doc:"of the task, in hex"`
	Taskrunner string  `json:"taskrunner" doc:"empty: it has none"`
	Joins      string  `json:"joins" doc:"ID of the assignment beside which hosts carry it out; empty: none"`
	Beside     string  `json:"beside" doc:"the SL that runs rank 0 of a job itself; empty: hosts have all members"`
	By         string  `json:"by" doc:"SPIFFE ID of who asked for it"`
	Phase      string  `json:"phase" doc:"waiting, preparing, running, ending or over"`
	Wants      string  `json:"wants" doc:"what is waited for, in words"`
	Verdict    string  `json:"verdict" doc:"succeeded, failed or cancelled; empty: there is none yet"`
	Reason     string  `json:"reason" doc:"of the verdict"`
	Members    uint32  `json:"members" doc:"hosts that carry it out"`
	Created    *string `json:"created" doc:"when it was asked for; RFC 3339, UTC"`
	Changed    *string `json:"changed" doc:"when the phase changed last"`
	Ended      *string `json:"ended" doc:"when it got its verdict; null: it has none"`
}

func listAssignments(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		all, err := api.ListAssignments(ctx)
		if err != nil {
			return fmt.Errorf("list assignments: %w", err)
		}
		out := assignmentsJSON{Assignments: []assignmentRowJSON{}, LeftOut: all.GetLeftOut()}
		t := table{header: []string{"ID", "TASK", "TASKRUNNER", "WHO", "STATE", "VERDICT", "MEMBERS", "SINCE"}}
		for _, a := range all.GetAssignments() {
			out.Assignments = append(out.Assignments, assignmentRowToJSON(a))
			t.add(a.GetId(), a.GetTask(), a.GetTaskrunner(), a.GetBy(), a.GetPhase(), a.GetVerdict(), utoa(uint64(a.GetMemberCount())), clockTime(a.GetCreatedUnixMs()))
		}
		err = s.show(out, func() error { return t.print(s.Env.Stdout) })
		if err == nil && out.LeftOut > 0 && !s.JSON { // last, as web mode has it in one answer with the table
			s.say(fmt.Sprintf("the answer has no room for %s that ended before: swarmctl audit shows them", many(int(out.LeftOut), "assignment")))
		}
		return err
	})
}

func assignmentRowToJSON(a *swarmv1.Assignment) assignmentRowJSON {
	return assignmentRowJSON{
		ID: a.GetId(), Task: a.GetTask(), TaskType: a.GetTaskType(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Joins: a.GetJoins(), Beside: a.GetBeside(), By: a.GetBy(),
		Phase: a.GetPhase(), Wants: a.GetWants(), Verdict: a.GetVerdict(), Reason: a.GetReason(), Members: a.GetMemberCount(),
		Created: stamp(a.GetCreatedUnixMs()), Changed: stamp(a.GetChangedUnixMs()), Ended: stamp(a.GetEndedUnixMs()),
	}
}
