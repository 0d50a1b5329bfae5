package swci_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// listingAPI is an SN with two assignments.
type listingAPI struct{ taskAPI }

func (*listingAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	return answer(&swarmv1.ListAssignmentsResponse{LeftOut: 3, Assignments: []*swarmv1.Assignment{
		{Id: "7", Task: "pull", TaskType: "PULL_IMAGE", Taskrunner: "tr", By: "spiffe://a.example/ann\x1b[2J", Phase: "over", Verdict: "failed", Reason: "why", MemberCount: 2, CreatedUnixMs: 9_000, EndedUnixMs: 10_000},
		{Id: "8", Task: "pull", Taskrunner: "tr", Joins: "7", By: "spiffe://a.example/bob", Phase: "waiting", Wants: "hosts", CreatedUnixMs: 9_500},
	}}, nil)
}

func TestListAssignments(t *testing.T) {
	out, beside, err := on(t, &listingAPI{}, "", "list", "assignments", "--sn=h")
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"ID TASK TASKRUNNER WHO STATE VERDICT MEMBERS SINCE",
		"7 pull tr spiffe://a.example/ann over failed 2 1970-01-01 00:00:09",
		"8 pull tr spiffe://a.example/bob waiting - 0 1970-01-01 00:00:09",
	}
	if err != nil || strings.Join(rows, "\n") != strings.Join(want, "\n") || !strings.Contains(beside, "no room for 3 assignments") {
		t.Errorf("%v, beside %q, got\n%s", err, beside, out)
	}
	out, _, err = on(t, &listingAPI{}, "", "list", "assignments", "--sn=h", "-o", "json")
	var got struct {
		Assignments []struct {
			ID, Joins, Reason string
			Members           int
			Ended             *string
		}
		LeftOut int `json:"left_out"`
	}
	if jerr := json.Unmarshal([]byte(out), &got); err != nil || jerr != nil || got.LeftOut != 3 || len(got.Assignments) != 2 || got.Assignments[0].Members != 2 || got.Assignments[0].Ended == nil || got.Assignments[1].Joins != "7" || got.Assignments[1].Ended != nil {
		t.Errorf("%v, %v, got %s", err, jerr, out)
	}
}
