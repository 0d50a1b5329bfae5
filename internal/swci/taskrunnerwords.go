package swci

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/deeds"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// onTaskrunner calls fn with the taskrunner that a command names.
func onTaskrunner(ctx context.Context, s *Session, args Args, fn func(*swarmv1.GetTaskrunnerResponse) error) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		r, err := api.GetTaskrunner(ctx, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("get taskrunner %s: %w", args.Value("NAME"), err)
		}
		return fn(r)
	})
}

func getTaskrunnerInfo(ctx context.Context, s *Session, args Args) error {
	return onTaskrunner(ctx, s, args, func(r *swarmv1.GetTaskrunnerResponse) error {
		out := taskrunnerToJSON(r.GetTaskrunner())
		return s.show(out, func() error { return out.facts.table(s.Env.Stdout) })
	})
}

// taskrunnerStatusJSON is `get taskrunner status NAME -o json`.
type taskrunnerStatusJSON struct {
	Name       string         `json:"name" doc:"the taskrunner's"`
	Status     string         `json:"status" doc:"IDLE, ASSIGNED, RUNNING, COMPLETE or ERROR"`
	Assignment assignmentJSON `json:"assignment" doc:"the last one"`

	facts fields
}

func (t taskrunnerStatusJSON) words(l *lines) { l.facts(t.facts) }

// peerType is what the peers of a task are, in the original's words.
func peerType(a *swarmv1.Assignment) string {
	if a.GetTaskType() == "RUN_SWARM" {
		return "SL"
	}
	return "SWOP"
}

func getTaskrunnerStatus(ctx context.Context, s *Session, args Args) error {
	return onTaskrunner(ctx, s, args, func(r *swarmv1.GetTaskrunnerResponse) error {
		a := tasks.Whole(r)
		out := taskrunnerStatusJSON{Name: r.GetTaskrunner().GetName(), Status: r.GetTaskrunner().GetStatus(), Assignment: assignmentToJSON(a)}
		f := &out.facts
		f.add("NAME", out.Name)
		f.add("TASK_NAME", first(a.GetTask(), "Empty"))
		f.add("PEER_TYPE", peerType(a))
		f.add("TASK_STATE", tasks.State(a))
		f.add("PEERS_NEEDED", utoa(uint64(out.Assignment.Peers)))
		f.add("ACTIVE_PEERS", utoa(uint64(a.GetActivePeers())))
		f.add("COMPLETED_PEERS", utoa(uint64(a.GetCompletedPeers())))
		f.add("FAILED_PEERS", utoa(uint64(a.GetFailedPeers())))
		f.add("OPERATION_ID", a.GetId())
		f.add("WAITING", a.GetWants())
		f.add("REASON", a.GetReason())
		f.add("ASSIGNED_TS", clockTime(a.GetCreatedUnixMs()))
		f.add("UPDATE_TS", clockTime(a.GetChangedUnixMs()))
		f.add("FINISHED_TS", clockTime(a.GetEndedUnixMs()))
		return s.show(out, func() error { return out.facts.table(s.Env.Stdout) })
	})
}

// taskrunnerPeersJSON is `list taskrunner peers NAME -o json`.
type taskrunnerPeersJSON struct {
	Name  string               `json:"name" doc:"the taskrunner's"`
	Peers []taskrunnerPeerJSON `json:"peers" doc:"hosts of its last assignment and of those that joined it, by index"`
	// LeftOut is said beside a table.
	LeftOut uint32 `json:"left_out" doc:"assignments that joined it, for which the SN's answer has no room"`
}

func (t taskrunnerPeersJSON) words(l *lines) {
	l.row([]string{"SWOP_PEER_INDEX", "SWOP_UID", "NAME", "SWOP_PEER_STATUS"})
	for _, p := range t.Peers {
		l.row([]string{utoa(uint64(p.Index)), p.UID, p.Node, p.Status})
	}
}

// taskrunnerPeerJSON is a row of `list taskrunner peers NAME -o json`, and part of `get taskrunner peer status`.
type taskrunnerPeerJSON struct {
	Index      uint32  `json:"index" doc:"of the host in the assignment, from 0"`
	Node       string  `json:"node" doc:"the host's name"`
	UID        string  `json:"uid" doc:"libp2p peer ID of its node key"`
	Assignment string  `json:"assignment" doc:"ID, the original's OPERATION_ID"`
	Peers      uint32  `json:"peers" doc:"for how many it counts"`
	State      string  `json:"state" doc:"placed, asked, prepared, started, ready, exited, refused, lost or stopped"`
	Status     string  `json:"status" doc:"the original's: ASSIGNED, RUNNING, COMPLETE or ERROR"`
	Code       int32   `json:"code" doc:"exit code, if it exited"`
	Text       string  `json:"text" doc:"what the host says of its state"`
	Cleaned    bool    `json:"cleaned" doc:"nothing of the task is left on the host"`
	Changed    *string `json:"changed" doc:"when the state changed last; RFC 3339, UTC"`

	facts fields
}

// peerStatusJSON is `get taskrunner peer status NAME PEER -o json`.
type peerStatusJSON struct {
	taskrunnerPeerJSON

	Group string       `json:"group" doc:"groupname of the host's profile; empty: it did not say"`
	SLs   []peerSLJSON `json:"sls" doc:"that the host started, by their index in its profile; of a RUN_SWARM task"`
}

// peerSLJSON is an SL in `get taskrunner peer status NAME PEER -o json`.
type peerSLJSON struct {
	Name   string `json:"name" doc:"the node's"`
	UID    string `json:"uid" doc:"libp2p peer ID of its node key"`
	Status string `json:"status" doc:"the original's: ASSIGNED, RUNNING, COMPLETE or ERROR"`
	Text   string `json:"text" doc:"what the swarm knows of it"`
}

func (p taskrunnerPeerJSON) words(l *lines) { l.facts(p.facts) }

func peerToJSON(a *swarmv1.Assignment, m *swarmv1.AssignmentMember) taskrunnerPeerJSON {
	out := taskrunnerPeerJSON{
		Index: m.GetIndex(), Node: m.GetNode(), UID: m.GetPeerId(), Assignment: a.GetId(), Peers: m.GetPeers(), State: m.GetState(), Status: m.GetStatus(),
		Code: m.GetCode(), Text: m.GetText(), Cleaned: m.GetCleaned(), Changed: stamp(m.GetChangedUnixMs()),
	}
	described := deeds.Ended(m.GetState(), m.GetCode())
	if m.GetText() != "" {
		described += ": " + m.GetText()
	}
	f := &out.facts
	f.add("NAME", out.Node)
	f.add("SWOP_UID", out.UID)
	f.add("OPERATION_ID", out.Assignment)
	f.add("PEER_COUNT", utoa(uint64(out.Peers)))
	f.add("UPDATE_TS", clockTime(m.GetChangedUnixMs()))
	f.add("SWOP_PEER_INDEX", utoa(uint64(out.Index)))
	f.add("SWOP_PEER_STATUS", out.Status)
	f.add("SWOP_PEER_STATUS_DESC", described)
	return out
}

// peerStatus is a host's part with its SLs. The original calls a host by its group.
func peerStatus(a *swarmv1.Assignment, m *swarmv1.AssignmentMember, nodes []*swarmv1.Node) peerStatusJSON {
	out := peerStatusJSON{taskrunnerPeerJSON: peerToJSON(a, m), Group: tasks.GroupOf(m, nodes), SLs: []peerSLJSON{}}
	if out.Group != "" && out.Group != out.Node {
		out.facts[0].value = out.Group
		out.facts = slices.Insert(out.facts, 1, field{"SWOP_NAME", out.Node})
	}
	for i, sl := range tasks.SLs(a, m, nodes) {
		out.SLs = append(out.SLs, peerSLJSON{sl.Name, sl.UID, sl.Status, sl.Text})
		f := &out.facts
		f.add("SL_PEER_INDEX", strconv.Itoa(i))
		f.add("SL_NAME", sl.Name)
		f.add("SL_UID", sl.UID)
		f.add("SL_PEER_STATUS", sl.Status)
		f.add("SL_PEER_STATUS_DESC", sl.Text)
	}
	return out
}

func listTaskrunnerPeers(ctx context.Context, s *Session, args Args) error {
	return onTaskrunner(ctx, s, args, func(r *swarmv1.GetTaskrunnerResponse) error {
		a := tasks.Whole(r)
		out := taskrunnerPeersJSON{Name: r.GetTaskrunner().GetName(), Peers: []taskrunnerPeerJSON{}, LeftOut: r.GetLeftOut()}
		t := table{header: []string{"INDEX", "NODE", "STATE", "CODE", "PEERS", "TEXT"}}
		for _, m := range a.GetMembers() {
			out.Peers = append(out.Peers, peerToJSON(a, m))
			code := ""
			if m.GetState() == "exited" {
				code = strconv.Itoa(int(m.GetCode()))
			}
			t.add(utoa(uint64(m.GetIndex())), m.GetNode(), m.GetState(), code, utoa(uint64(m.GetPeers())), m.GetText())
		}
		err := s.show(out, func() error { return t.print(s.Env.Stdout) })
		if err == nil && out.LeftOut > 0 && !s.JSON { // last, as web mode has it in one answer with the table
			s.say(leftOutPeers(out.LeftOut))
		}
		return err
	})
}

// leftOutPeers says that an answer lacks hosts.
func leftOutPeers(n uint32) string {
	return fmt.Sprintf("the answer has no room for the hosts of %s that joined it: swarmctl list assignments names them", many(int(n), "assignment"))
}

func getTaskrunnerPeer(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		r, err := api.GetTaskrunner(ctx, args.Value("NAME"))
		if err != nil {
			return fmt.Errorf("get taskrunner %s: %w", args.Value("NAME"), err)
		}
		nodes, err := api.By.ListNodes(ctx)
		if err != nil && client.Reason(err) != "NO_RIGHT" { // who may read tasks alone sees no SLs
			return fmt.Errorf("list nodes: %w", err)
		}
		a, peer := tasks.Whole(r), args.Value("PEER")
		var known []string
		for _, m := range slices.Backward(a.GetMembers()) { // a host that joined again is what it is now
			known = append(known, utoa(uint64(m.GetIndex()))+" is "+m.GetNode())
			if peer == m.GetNode() || peer == m.GetPeerId() || peer == utoa(uint64(m.GetIndex())) {
				out := peerStatus(a, m, nodes.GetNodes())
				return s.show(out, func() error { return out.facts.table(s.Env.Stdout) })
			}
		}
		slices.Reverse(known)
		hint := strings.Join(known[:min(len(known), 20)], ", ")
		if len(known) == 0 {
			hint = "no host carries out a task of it"
		}
		if n := r.GetLeftOut(); n > 0 {
			hint += "; " + leftOutPeers(n)
		}
		return exit.New(exit.NotFound, hint, "taskrunner %s has no peer %q", args.Value("NAME"), peer)
	})
}

func resetTaskrunner(ctx context.Context, s *Session, args Args) error {
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		name := args.Value("NAME")
		p := newTaskProgress(s)
		idle, err := tasks.Reset(ctx, api, name, "reset by an operator", p.seen)
		p.end()
		if err != nil {
			return fmt.Errorf("reset taskrunner %s: %w", name, err)
		}
		if !idle {
			return exit.New(exit.TimedOut, "swarmctl list taskrunner peers "+name+" shows which; assign to it once they have", "taskrunner %s is reset, but hosts still clean up after %v", name, tasks.ResetWait)
		}
		r, err := api.GetTaskrunner(ctx, name)
		if err != nil {
			return fmt.Errorf("reset taskrunner %s: %w", name, err)
		}
		out := taskrunnerToJSON(r.GetTaskrunner())
		out.said = "TASKRUNNER RESET : " + out.Name
		return s.show(out, func() error {
			fmt.Fprintf(s.Env.Stdout, "taskrunner %s is idle\n", text.Line(name))
			return nil
		})
	})
}
