package swci

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

func jobStatusCommands() []*Command {
	const group = "Jobs"
	return []*Command{
		{
			Pattern: "list jobs", Group: group, Shell: true,
			Summary: "List jobs that run, and how the last ones ended",
			Details: "Shows each run of a job: those that are under way, and of those that are over what the swarm keeps of the last 256 assignments, those first that were begun first.",
			Example: "list jobs",
			JSON:    jobsJSON{},
			Run:     listJobs,
		},
		{
			Pattern: "get job status JOB", Group: group, Shell: true,
			Summary: "Show where a job and each of its members stand",
			Details: "Shows the last run of the job, or the one that --assignment names: what it waits for, or how it ended and why; then each member with its group, its rank, its host, its state, whether it is ready, the exit code and what its host says of it. Members are those of the last start: a restart places them anew.",
			Example: "get job status mnist-ddp",
			Flags:   []cli.Flag{ofRunFlag()},
			JSON:    jobStatusJSON{},
			Run:     getJobStatus,
		},
	}
}

// jobRunJSON is a run of a job.
type jobRunJSON struct {
	Job        string  `json:"job" doc:"its name"`
	Assignment string  `json:"assignment" doc:"ID of the run"`
	Task       string  `json:"task" doc:"that has the job: get task body shows it"`
	Digest     string  `json:"digest" doc:"of the task, SHA-256 in hex"`
	Phase      string  `json:"phase" doc:"waiting, preparing, running, ending or over"`
	Wants      string  `json:"wants" doc:"what is waited for, in words"`
	Verdict    string  `json:"verdict" doc:"succeeded, failed or cancelled; empty: there is none yet"`
	End        string  `json:"end" doc:"why it ended, in one word: entry_done, ttl, stop_file, cancelled, no_capacity, max_runtime, main_timeout, ready_timeout, member_failed, host_lost or refused; empty: it has not"`
	Reason     string  `json:"reason" doc:"of the verdict, in words"`
	By         string  `json:"by" doc:"SPIFFE ID of who asked for it"`
	Beside     string  `json:"beside" doc:"the SL that runs rank 0 itself; empty: hosts have all members"`
	Members    uint32  `json:"members" doc:"that were placed"`
	Epoch      uint32  `json:"epoch" doc:"how often members were placed; 0: they were not yet"`
	Restarts   uint32  `json:"restarts" doc:"how often they may be placed anew"`
	Created    *string `json:"created" doc:"when it was asked for; RFC 3339, UTC"`
	Changed    *string `json:"changed" doc:"when the phase changed last"`
	Ended      *string `json:"ended" doc:"when it got its verdict; null: it has none"`
}

func jobRunToJSON(a *swarmv1.Assignment) jobRunJSON {
	return jobRunJSON{
		Job: jobs.Whose(a), Assignment: a.GetId(), Task: a.GetTask(), Digest: a.GetDigest(), Phase: a.GetPhase(), Wants: a.GetWants(), Verdict: a.GetVerdict(), End: a.GetEnd(), Reason: a.GetReason(),
		By: a.GetBy(), Beside: a.GetBeside(), Members: max(a.GetMemberCount(), uint32(len(a.GetMembers()))), Epoch: a.GetEpoch(), Restarts: a.GetRetries(), //nolint:gosec // an answer has not so many
		Created: stamp(a.GetCreatedUnixMs()), Changed: stamp(a.GetChangedUnixMs()), Ended: stamp(a.GetEndedUnixMs()),
	}
}

// jobsJSON is `list jobs -o json`.
type jobsJSON struct {
	Runs    []jobRunJSON `json:"runs" doc:"those first that were begun first"`
	LeftOut uint32       `json:"left_out" doc:"of all assignments that are over the oldest, for which the SN's answer has no room"`
}

func listJobs(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		all, leftOut, err := jobs.Runs(ctx, api, "")
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		out := jobsJSON{Runs: []jobRunJSON{}, LeftOut: leftOut}
		t := table{header: []string{"JOB", "ASSIGNMENT", "STATE", "VERDICT", "END", "MEMBERS", "WHO", "SINCE"}}
		for _, a := range all {
			r := jobRunToJSON(a)
			out.Runs = append(out.Runs, r)
			t.add(r.Job, r.Assignment, r.Phase, r.Verdict, r.End, utoa(uint64(r.Members)), r.By, clockTime(a.GetCreatedUnixMs()))
		}
		err = s.show(out, func() error { return t.print(s.Env.Stdout) })
		if err == nil && leftOut > 0 && !s.JSON {
			s.say(fmt.Sprintf("the answer has no room for %s that ended before: swarmctl audit shows them", many(int(leftOut), "assignment")))
		}
		return err
	})
}

// jobStatusJSON is `get job status JOB -o json`.
type jobStatusJSON struct {
	Run     jobRunJSON      `json:"run" doc:"of the job"`
	Hosts   []string        `json:"hosts" doc:"that may have members"`
	Members []jobMemberJSON `json:"members" doc:"of the last start, by rank"`
}

type jobMemberJSON struct {
	Group    string  `json:"group" doc:"its group"`
	Rank     uint32  `json:"rank" doc:"in the job, from 0; from 1 beside an SL, which runs rank 0 itself"`
	Host     string  `json:"host" doc:"where it is"`
	State    string  `json:"state" doc:"placed, asked, prepared, started, ready, exited, refused, lost or stopped"`
	Ready    bool    `json:"ready" doc:"it is"`
	ExitCode *int32  `json:"exit_code" doc:"null: it has not ended by itself"`
	Text     string  `json:"text" doc:"what its host says of it"`
	Cleaned  bool    `json:"cleaned" doc:"nothing of it is left on its host"`
	Changed  *string `json:"changed" doc:"when its state changed last; RFC 3339, UTC"`
}

func getJobStatus(ctx context.Context, s *Session, args Args) error {
	job := args.Value("JOB")
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		a, others, err := jobs.Run(ctx, api, job, args.Opts.String("assignment"))
		if err != nil {
			return fmt.Errorf("get job status %s: %w", job, err)
		}
		out := jobStatusJSON{Run: jobRunToJSON(a), Hosts: append([]string{}, a.GetHosts()...), Members: []jobMemberJSON{}}
		for _, m := range a.GetMembers() {
			out.Members = append(out.Members, jobMemberToJSON(a, m))
		}
		if others > 0 && !s.JSON {
			s.say(fmt.Sprintf("of job %s %s before this one is not over: swarmctl list jobs", job, many(others, "run")))
		}
		return s.show(out, func() error { return printJobStatus(s, a, out) })
	})
}

func jobMemberToJSON(a *swarmv1.Assignment, m *swarmv1.AssignmentMember) jobMemberJSON {
	out := jobMemberJSON{
		Group: m.GetGroup(), Rank: jobs.Rank(a, m), Host: m.GetNode(), State: m.GetState(), Ready: m.GetState() == "ready", Text: m.GetText(), Cleaned: m.GetCleaned(), Changed: stamp(m.GetChangedUnixMs()),
	}
	if code := m.GetCode(); m.GetState() == "exited" {
		out.ExitCode = &code
	}
	return out
}

// printJobStatus writes what is known of the run, then its members.
func printJobStatus(s *Session, a *swarmv1.Assignment, out jobStatusJSON) error {
	var f fields
	f.add("JOB", out.Run.Job)
	f.add("ASSIGNMENT", out.Run.Assignment)
	f.add("TASK", out.Run.Task)
	f.add("STATE", jobs.StateWords(a))
	if out.Run.Epoch > 1 {
		f.add("RESTARTS", fmt.Sprintf("%d of %d", out.Run.Epoch-1, out.Run.Restarts))
	}
	f.add("END", out.Run.End)
	f.add("ASKED BY", out.Run.By)
	if sl := out.Run.Beside; sl != "" {
		f.add("BESIDE", "SL "+sl+", which runs rank 0 itself")
	}
	f.add("BEGAN", clockTime(a.GetCreatedUnixMs()))
	f.add("ENDED", clockTime(a.GetEndedUnixMs()))
	if err := f.table(s.Env.Stdout); err != nil || len(out.Members) == 0 {
		return err
	}
	fmt.Fprintln(s.Env.Stdout)
	t := table{header: []string{"GROUP", "RANK", "HOST", "STATE", "READY", "EXIT CODE", "SINCE", "SAYS"}}
	for i, m := range out.Members {
		code, ready := "", yesNo(m.Ready)
		if m.ExitCode != nil {
			code = strconv.Itoa(int(*m.ExitCode))
		}
		if slices.Contains([]string{"exited", "refused", "lost", "stopped"}, m.State) {
			ready = "" // it was, or was not
		}
		t.add(m.Group, utoa(uint64(m.Rank)), m.Host, m.State, ready, code, clockTime(a.GetMembers()[i].GetChangedUnixMs()), m.Text)
	}
	return t.print(s.Env.Stdout)
}
