package swci_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// listingAPI is an SN with two assignments, whose answers have no room for more.
type listingAPI struct{ taskAPI }

func (*listingAPI) GetTaskrunner(context.Context, *connect.Request[swarmv1.GetTaskrunnerRequest]) (*connect.Response[swarmv1.GetTaskrunnerResponse], error) {
	return answer(&swarmv1.GetTaskrunnerResponse{
		Taskrunner: &swarmv1.Taskrunner{Name: "tr"}, LeftOut: 2,
		Assignment: &swarmv1.Assignment{Id: "7", Phase: "over", Members: []*swarmv1.AssignmentMember{{Node: "h-0", PeerId: "k0", Status: "COMPLETE"}}},
		Ended:      []*swarmv1.Assignment{{Id: "10", Phase: "over", CreatedUnixMs: 9, FirstIndex: 3, Members: []*swarmv1.AssignmentMember{{Node: "h-3", PeerId: "k3", Status: "ERROR"}}}},
	}, nil)
}

func (*listingAPI) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	return answer(&swarmv1.ListAssignmentsResponse{LeftOut: 3, Assignments: []*swarmv1.Assignment{
		{Id: "7", Task: "pull", TaskType: "PULL_IMAGE", Taskrunner: "tr", By: "spiffe://a.example/ann\x1b[2J", Phase: "over", Verdict: "failed", Reason: "why", MemberCount: 2, CreatedUnixMs: 9_000, EndedUnixMs: 10_000},
		{Id: "8", Task: "pull", Taskrunner: "tr", Joins: "7", By: "spiffe://a.example/bob", Phase: "waiting", Wants: "hosts", CreatedUnixMs: 9_500},
	}}, nil)
}

// TestPeersThatAreLeftOut: those for which there is no room keep their indexes, and who asks for one of them is told.
func TestPeersThatAreLeftOut(t *testing.T) {
	if out, _, err := on(t, &listingAPI{}, "", "get", "taskrunner", "peer", "status", "tr", "3", "--sn=h"); err != nil || !strings.Contains(out, "k3") {
		t.Errorf("%v, %s", err, out)
	}
	_, _, err := on(t, &listingAPI{}, "", "get", "taskrunner", "peer", "status", "tr", "2", "--sn=h")
	if hint := exit.Hint(err); exit.Code(err) != exit.NotFound || !strings.HasPrefix(hint, "0 is h-0, 3 is h-3; the answer has no room for the hosts of 2 assignments") {
		t.Errorf("%v: %s", err, hint)
	}
}

// TestWebModeSaysLastWhatIsLeftOut: its clients take the first line of an answer for the head of a table.
func TestWebModeSaysLastWhatIsLeftOut(t *testing.T) {
	p := serveWeb(t, "create context c listing\nswitch context c\n")
	for line, want := range map[string][2]string{
		"list taskrunner peers tr": {"SWOP_PEER_INDEX,SWOP_UID,NAME,SWOP_PEER_STATUS|0,k0,h-0,COMPLETE|3,k3,h-3,ERROR|", "swarmctl: the answer has no room for the hosts of 2 assignments that joined it: swarmctl list assignments names them"},
		"list assignments":         {"ID ", "swarmctl: the answer has no room for 3 assignments that ended before: swarmctl audit shows them"},
	} {
		got := p.say("ada", line)
		if lines := strings.Split(got, "|"); !strings.HasPrefix(got, want[0]) || lines[len(lines)-1] != want[1] {
			t.Errorf("%s: %s", line, got)
		}
	}
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
