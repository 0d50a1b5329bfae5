package state_test

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// everyCommand has one command of each type with every field set.
var everyCommand = []state.Command{
	state.InitSwarm{SwarmID: "swarm-1", AtMS: 1},
	state.RegisterNode{Node: state.Node{
		Name: "sn-0", Role: naming.RoleSN, SPIFFEID: "spiffe://a.example/swarm/sn/sn-0", PeerID: "12D3Koo", Host: "10.0.0.1",
		P2PPort: 30303, APIPort: 30304, FSPort: 30305, Runtime: "process", Sentinel: true,
	}, TokenHash: hexOf("ab", 64), AtMS: 2},
	state.ForgetNode{Node: "sl-0", AtMS: 3},
	state.SetLive{Node: "sl-0", Live: true, AtMS: 4},
	state.OpenSession{
		Session: hexOf("1", 32), Contract: "study", Node: "sl-0", Terms: terms("a", 2), ExpectedPeers: 3, SyncFrequency: 10,
		Adaptive: true, CheckinMode: state.CheckinActive, Weight: 7, TotalEpochs: 5, AtMS: 5,
	},
	state.CloseSession{Session: hexOf("1", 32), Contract: "study", Run: 1, CheckinMode: state.CheckinInactive, Seq: 9, AtMS: 6},
	state.EndSession{Session: hexOf("1", 32), Contract: "study", Run: 1, Reason: "failed: <exit> & more", ExitCode: -1, AtMS: 7},
	state.PlanRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, Final: true, Reason: "sl-1 is lost", AtMS: 8,
		Participants: []state.Participant{{Session: hexOf("1", 32), Node: "sl-0", Weight: 1, Seq: 4, ShardFirst: 0, ShardLeaves: 7}},
	},
	state.CancelPlan{Contract: "study", Run: 1, Round: 2, Attempt: 3, Reason: "sl-1 is lost", AtMS: 9},
	state.CommitRound{Contract: "study", Run: 1, Round: 2, Attempt: 3, Digest: hexOf("d", 64), NextInterval: 20, AtMS: 10},
	state.FinishContract{Contract: "study", Run: 1, Round: 2, Reason: "nobody came", AtMS: 11},
	state.ResetContract{Contract: "study", Run: 1, Force: true, AtMS: 12},
	state.BanNode{PeerID: "12D3Koo", Reason: "key was copied", By: "spiffe://a.example/swarm/swci", AtMS: 13},
	state.UnbanNode{PeerID: "12D3Koo", AtMS: 14},
	state.OpenSession{
		Session: hexOf("1", 32), Contract: "study", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7,
		Isolation: "container, open: network lan, mount /mnt/ü", AtMS: 15,
	},
	state.LeaveNode{Node: "sl-0", TokenHash: hexOf("ab", 64), Reason: "training is over", AtMS: 16},
	state.LoseModel{
		Contract: "study", Run: 1, Round: 9, Digest: hexOf("d", 64), ResumedRound: 7, ResumedDigest: hexOf("c", 64),
		ResumedStateDigest: hexOf("b", 64), AtMS: 17,
	},
	state.RecordBundle{TrustDomain: "a.example", Certificates: [][]byte{{1}, {2, 3}}, AtMS: 18},
	state.RegisterNode{
		Node:      state.Node{Name: "sl-0", Role: naming.RoleSL, SPIFFEID: "spiffe://a.example/swarm/sl/sl-0", PeerID: "12D3Koo", Host: "10.0.0.1"},
		TokenHash: hexOf("ab", 64), AtMS: 19, Signature: []byte{1}, Chain: [][]byte{{2}, {3}},
	},
	state.CommitRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, Digest: hexOf("d", 64), NextInterval: 20, AtMS: 20,
		StateDigest: hexOf("e", 64), ShardDigests: []string{hexOf("f", 64)}, Signatures: [][]byte{{4}},
	},
	state.CreateContract{Contract: "study", Rules: state.Rules{
		Method: "krum(f=1)", Least: 5, MinPeers: 5, ExpectedPeers: 6, Required: []string{"sl-0", "sl-1"}, MinWeightSharePPM: 800_000,
		WeightCapPPM: 400_000, Export: true, NonFinite: state.NonFiniteFail, QuorumWaitMS: 1, StallGraceMS: 2, MinPeersTimeoutMS: 3,
	}, AtMS: 21},
	state.FailContract{Contract: "study", Run: 1, Reason: "below minPeers", Below: true, AtMS: 22},
	state.OpenSession{
		Session: hexOf("1", 32), Contract: "study", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7,
		NoShard: true, QuorumWaitMS: 30_000, StallGraceMS: 60_000, AtMS: 23,
	},
	state.PlanRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, AtMS: 24,
		Participants: []state.Participant{{Session: hexOf("1", 32), Node: "sl-0", Weight: 1, Seq: 4, ShardLeaves: 7, FactorBits: 1 << 61, NormBits: 1 << 60}},
	},
	state.PlanRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, AtMS: 25, Epoch: 1,
		Participants: []state.Participant{{
			Session: hexOf("1", 32), Node: "sl-0", Weight: 1, Seq: 4, ShardLeaves: 2, MoreShards: []state.LeafRun{{First: 2, Leaves: 1}, {First: 5, Leaves: 2}},
		}},
	},
	state.CreateContract{Contract: "study", AtMS: 25, Order: anOrder("CreateContract")},
	state.ResetContract{Contract: "study", AtMS: 26, Order: anOrder("ResetContract")},
	state.ForgetNode{Node: "sl-0", AtMS: 27, Order: anOrder("ForgetNode")},
	state.BanNode{PeerID: "12D3", By: "spiffe://a.example/swarm/swci", AtMS: 28, Order: anOrder("BanNode")},
	state.UnbanNode{PeerID: "12D3", AtMS: 29, Order: anOrder("UnbanNode")},
	state.RecordFetch{
		Contract: "study", Run: 1, Round: 2, Digest: hexOf("d", 64), By: "spiffe://a.example/swarm/swci", Node: "sl-0", SeenMS: 30, Signature: []byte{1}, AtMS: 31,
	},
	state.SkipRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, Sessions: map[string]uint64{hexOf("2", 32): 5, hexOf("1", 32): 4}, Reason: "sl-1 is lost", AtMS: 26,
	},
	state.PlanRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, AtMS: 27, Epoch: 1, Allotted: true,
		Participants: []state.Participant{{Session: hexOf("1", 32), Node: "sl-0", Weight: 1, Seq: 4, ShardLeaves: 7}},
	},
	state.ExpireContract{Contract: "study", AtMS: 28},
	// What others check by themselves.
	state.RegisterNode{
		Node: state.Node{Name: "sl-1", Role: naming.RoleSL, SPIFFEID: "spiffe://s/swarm/sl/sl-1", PeerID: "peer-1", Host: "h"}, TokenHash: hexOf("b", 64), AtMS: 3,
		Signature: []byte{1}, Chain: [][]byte{{2}, {3}}, KeepProof: true,
	},
	state.CreateContract{Contract: "study", Rules: state.Rules{Allow: []string{"spiffe://s/swarm/sl/*"}}, AtMS: 5},
	state.DeleteContract{Contract: "study", Run: 3, Force: true, AtMS: 32, Order: anOrder("DeleteContract")},
	state.ExpireContract{Contract: "study", Run: 2, AtMS: 33},
	// Operators admit SNs.
	state.InitSwarm{SwarmID: "swarm-1", AtMS: 1, Founder: &state.Admission{Name: "sn-0", PeerID: "12D3Koo", AtMS: 1}},
	state.AdmitNode{Node: "sn-1", PeerID: "12D3", By: "spiffe://a.example/swarm/swci", AtMS: 6, Order: anOrder("AdmitNode")},
	state.OpenSession{
		Session: "8", Contract: "c", Node: "sl-1", Terms: terms("d", 3), SyncFrequency: 16, CheckinMode: "active", Weight: 10, Late: true, KeepKey: true, AtMS: 69,
	},
	// One digest over all shards.
	state.CommitRound{
		Contract: "study", Run: 1, Round: 2, Attempt: 3, Digest: hexOf("d", 64), NextInterval: 20, AtMS: 34, ShardsDigest: hexOf("f", 64), Signatures: [][]byte{{4}},
	},
	state.AdoptRound{
		Contract: "study", Run: 1, Last: 12, Round: 72, NextInterval: 20, AtMS: 40, Proof: ledger.Round{
			Contract: "study", Run: 1, Round: 71, Attempt: 1, Method: "mean", Layout: hexOf("a", 64), Model: hexOf("d", 64), Shards: []string{hexOf("e", 64)},
			Witnessed:    ledger.Witness{Hash: hexOf("f", 64)},
			Participants: []ledger.Participant{{Node: "sl-0", PeerID: "12D3Koo", Session: hexOf("1", 32), Weight: 7, ShardLeaves: 16, Signature: []byte{1, 2}}},
		},
	},
	// Who chooses a check-in mode where programs do not.
	state.OpenSession{
		Session: hexOf("1", 32), Contract: "study", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7,
		CheckinDefault: state.CheckinOnce, KeepChooser: true, AtMS: 70,
	},
	state.CreateContract{Contract: "study", Rules: state.Rules{CheckinDefault: state.CheckinInactive}, AtMS: 71},
	state.CreateContract{Contract: "study", Rules: state.Rules{Curves: []string{"spiffe://a.example/swarm/audit", "spiffe://a.example/swarm/swci/**"}}, AtMS: 72},
	// Which program runs.
	state.OpenSession{
		Session: "8", Contract: "c", Node: "sl-1", Terms: terms("d", 3), SyncFrequency: 16, CheckinMode: "active", Weight: 10, Program: "train.py sha256:00, image x:1", AtMS: 70,
	},
	// Operators halt trainings.
	state.PauseContract{Contract: "study", Run: 3, AtMS: 41, Order: anOrder("PauseContract")},
	state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "study", Run: 3, AtMS: 42, Order: anOrder("ResumeContract")}},
	state.EndContract{Contract: "study", Run: 3, AtMS: 43, Order: anOrder("EndContract")},
	state.OpenSession{
		Session: hexOf("1", 32), Contract: "study", Node: "sl-0", Terms: weighing(terms("a", 2)), SyncFrequency: 10, Weight: 60_000, AtMS: 1,
	},
	state.CloseSession{Session: hexOf("1", 32), Contract: "study", Run: 1, Seq: 9, Weight: new(uint32(60_000)), AtMS: 2},
	state.CloseSession{Session: hexOf("1", 32), Contract: "study", Run: 1, Seq: 9, Weight: new(uint32(0)), AtMS: 2}, // none, which is not as before
	// Programs are recorded with rounds.
	state.OpenSession{
		Session: "8", Contract: "c", Node: "sl-1", Terms: terms("d", 3), SyncFrequency: 16, Weight: 10, Program: "train.py sha256:00", KeepProgram: true, AtMS: 70,
	},
	state.CommitRound{Contract: "study", Run: 1, Round: 2, Attempt: 3, Digest: hexOf("d", 64), NextInterval: 20, KeepCounted: true, AtMS: 35},
	state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "study", Run: 3, AtMS: 44, Order: anOrder("ResumeContract")}, KeepPace: true},
	// Operators invite SNs.
	state.InviteNode{
		Node: "sn-d", SPIFFEID: "spiffe://a.example/swarm/sn/sn-d", Key: bytes.Repeat([]byte{7}, 32), ExpiresMS: 86_400_072, By: "spiffe://a.example/swarm/swci", AtMS: 72,
		Order: anOrder("InviteNode"),
	},
	state.ClaimInvitation{
		Node: "sn-d", PeerID: "12D3", SPIFFEID: "spiffe://a.example/swarm/sn/sn-d", Key: bytes.Repeat([]byte{7}, 32), Signature: bytes.Repeat([]byte{8}, 64), AtMS: 73,
	},
	// Tasks, taskrunners and assignments.
	state.CreateTask{
		Task: "pull", TaskType: task.PullImage, Author: "me <me@a.example>", Prereq: task.Root, Outcome: "img:1", CreatedBy: "spiffe://a.example/swarm/swci", AtMS: 50, Order: anOrder("CreateTask"),
	},
	state.EditTask{Task: "pull", Line: 1, Text: []byte("Tag: 1\nAuth: null\n"), AtMS: 51, Order: anOrder("EditTask")},
	state.FinaliseTask{Task: "pull", Digest: pullDigest, AtMS: 52, Order: anOrder("FinaliseTask")},
	state.CreateTaskrunner{Taskrunner: "tr", AtMS: 53, Order: anOrder("CreateTaskrunner")},
	state.AssignTask{Assignment: task.Request{
		ID: "9575480544290973496", Task: "pull", Digest: pullDigest, Taskrunner: "tr", Hosts: []string{"swop-0", "swop-1"}, InOrder: true, Retries: 1, TimeoutMS: 60_000,
		Groups: []task.Group{{Name: "peers", Peers: 2, Least: 1}}, By: "spiffe://a.example/swarm/swci",
	}, AtMS: 54, Order: anOrder("AssignTask")},
	state.MoveAssignments{AtMS: 55, Moves: []task.Move{
		{Assignment: "9575480544290973496", Do: task.Place, Members: []task.Placement{{Node: "swop-0", Group: "peers", Peers: 2}}},
		{Assignment: "7", Epoch: 1, Reports: []task.Report{{Member: 1, Node: "swop-1", State: task.Exited, Code: -1, Text: "pull: no such image", Cleaned: true}}, Do: task.Judge, Verdict: task.Failed, Why: "swop-1: pull: no such image"},
	}},
	state.CancelAssignment{Assignment: "9575480544290973496", Reason: "no longer needed", AtMS: 56, Order: anOrder("CancelAssignment")},
	state.ResetTaskrunner{Taskrunner: "tr", Reason: "reset", AtMS: 57, Order: anOrder("ResetTaskrunner")},
	state.DeleteTaskrunner{Taskrunner: "tr", AtMS: 58, Order: anOrder("DeleteTaskrunner")},
	state.DeleteTask{Task: "pull", Force: true, AtMS: 59, Order: anOrder("DeleteTask")},
	state.RegisterNode{
		Node: state.Node{Name: "swop-0", Role: naming.RoleSWOP, PeerID: "12D3", Offer: &task.Offer{Taskrunner: "tr", Peers: 2}}, TokenHash: hexOf("b", 64), AtMS: 60,
	},
	state.AssignTask{Assignment: task.Request{ID: "8", Task: "pull", Hosts: []string{"swop-0"}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, ExpiresMS: 99}, AtMS: 61, Order: anOrder("AssignTask")},
	state.ApproveTask{PartOfHost: part("tr", 62, "ApproveTask")},
	state.RefuseTask{PartOfHost: part("", 63, "RefuseTask"), Reason: "not today"},
	// Operators set rights.
	state.SetRights{
		Sentences: []string{"Allow spiffe://a.example/swarm/swci/** to manage all-resources", "Allow spiffe://b.example/** to use contracts where contract.name='study'"},
		By:        "spiffe://a.example/swarm/swci", AtMS: 74, Order: anOrder("SetRights"),
	},
	// A host joins what a taskrunner carries out, and the record says whom an assignment needs and until when.
	state.AssignTask{Assignment: task.Request{
		ID: "9", Task: "pull", Digest: pullDigest, Taskrunner: "tr", Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, ExpiresMS: 99, Joins: "8",
	}, AtMS: 75, Order: anOrder("AssignTask"), Whole: true},
	state.RegisterNode{
		Node: state.Node{Name: "swop-1", Role: naming.RoleSWOP, PeerID: "12D3", Offer: &task.Offer{
			Taskrunner: "tr", Peers: 2, Group: "grp", CPUs: 8, MemoryBytes: 1 << 30, GPUs: 1, Labels: []string{"site=a"},
		}}, TokenHash: hexOf("b", 64), AtMS: 76,
	},
	// The records of an assignment say what it joins, and of members their groups.
	state.AssignTask{Assignment: task.Request{
		ID: "10", Task: "pull", Digest: pullDigest, Taskrunner: "tr", Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, ExpiresMS: 99, Joins: "8",
	}, AtMS: 77, Order: anOrder("AssignTask"), Whole: true, Detailed: true},
	state.MoveAssignments{AtMS: 78, Moves: []task.Move{
		{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "swop-1", State: task.Exited, Signature: "c2ln"}}},
	}},
	// A host is one member, and what has succeeded has not failed.
	state.AssignTask{Assignment: task.Request{
		ID: "11", Task: "pull", Digest: pullDigest, Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "peers", Peers: 1, Least: 1}}, ExpiresMS: 99,
	}, AtMS: 79, Order: anOrder("AssignTask"), Whole: true, Detailed: true, Strict: true},
	// A task may be a job.
	state.CreateTask{Task: "job", TaskType: task.RunJob, Prereq: task.Root, CreatedBy: "spiffe://a.example/swarm/swci", AtMS: 80, Order: anOrder("CreateTask"), Jobs: true},
	state.AssignTask{Assignment: task.Request{
		ID: "12", Task: "job", Digest: pullDigest, Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "main", Peers: 2, Least: 1}, {Name: "worker", Peers: 2}}, ExpiresMS: 99,
		JobTerms: task.JobTerms{Done: task.DoneMain, ReadyMS: 600_000, LivesMS: 3_600_000, Together: true},
	}, AtMS: 81, Order: anOrder("AssignTask"), Whole: true, Detailed: true, Strict: true},
	state.MoveAssignments{AtMS: 82, Moves: []task.Move{{Assignment: "12", Epoch: 1, Do: task.Judge, Verdict: task.Succeeded, End: task.EndEntryDone}}},
	state.AssignTask{Assignment: task.Request{
		ID: "13", Task: "job", Digest: pullDigest, Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}}, ExpiresMS: 99, JobTerms: task.JobTerms{GraceMS: 30_000},
	}, AtMS: 83, Order: anOrder("AssignTask"), Whole: true, Detailed: true, Strict: true},
	// A host may ask for the end of a job.
	state.AssignTask{Assignment: task.Request{
		ID: "14", Task: "job", Digest: pullDigest, Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}}, ExpiresMS: 99, JobTerms: task.JobTerms{Stops: true},
	}, AtMS: 84, Order: anOrder("AssignTask"), Whole: true, Detailed: true, Strict: true},
	state.MoveAssignments{AtMS: 85, Moves: []task.Move{
		{Assignment: "14", Epoch: 1, Reports: []task.Report{{Node: "swop-1", State: task.Ready, Signature: "c2ln", Asks: task.AskStop}}, Do: task.Judge, Verdict: task.Succeeded, End: task.EndStopFile},
	}},
	state.RegisterNode{
		Node: state.Node{Name: "swop-2", Role: naming.RoleSWOP, SPIFFEID: "spiffe://s/swarm/swop/swop-2", PeerID: "peer-2", Host: "h"}, TokenHash: hexOf("b", 64), AtMS: 90,
		Signature: []byte{1}, Chain: [][]byte{{2}, {3}}, KeepProof: true, Address: []byte{4},
	},
	state.MoveAssignments{AtMS: 91, Moves: []task.Move{
		{Assignment: "14", Epoch: 1, Reports: []task.Report{{Node: "swop-1", State: task.Prepared, Address: task.Address{IP: "10.9.0.1", IPSignature: "c2ln"}}}},
	}},
	// How members end counts for one that is asked to end.
	state.AssignTask{Assignment: task.Request{
		ID: "15", Task: "job", Digest: pullDigest, Hosts: []string{"swop-1"}, Groups: []task.Group{{Name: "main", Peers: 1, Least: 1}}, ExpiresMS: 99, JobTerms: task.JobTerms{Stops: true},
	}, AtMS: 92, Order: anOrder("AssignTask"), Whole: true, Detailed: true, Strict: true, ExitsCount: true},
}

// pullDigest is what the task of everyCommand comes to.
const pullDigest = "5687c0bef16176e890c5d667d33eb521b45f105d35430dfd953fb1074a54d46b"

func part(taskrunner string, atMS int64, method string) state.PartOfHost {
	return state.PartOfHost{
		Assignment: "8", Task: "pull", Digest: pullDigest, Taskrunner: taskrunner, Host: "swop-0", By: "spiffe://a.example/swarm/swci/bob", AtMS: atMS, Order: anOrder(method),
	}
}

func anOrder(method string) *ledger.Order {
	return &ledger.Order{
		By: "spiffe://a.example/swarm/swci", Method: method, Request: []byte(`{"contract":"study"}`), AskedMS: 24, Nonce: []byte{1},
		Witnessed: ledger.Witness{Length: 2, Hash: hexOf("a", 64)}, Signature: []byte{2}, Chain: [][]byte{{3}},
	}
}

// TestGoldenCommands holds that commands in old logs stay readable: lines of the golden file are never changed, only added.
func TestGoldenCommands(t *testing.T) {
	var got bytes.Buffer
	for _, c := range everyCommand {
		b, err := state.EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(append(b, '\n'))
	}
	const file = "testdata/commands-v1.golden"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("encoding differs (-want +got):\n%s", diff)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(want), []byte("\n")) {
		c, err := state.DecodeCommand(line)
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
		} else if diff := cmp.Diff(everyCommand[i], c); diff != "" {
			t.Errorf("line %d:\n%s", i+1, diff)
		}
	}
}

// weighing are terms of weights that are numbers of samples.
func weighing(t state.Terms) state.Terms {
	t.Weights = state.WeightsSamples
	return t
}

// TestEveryFieldIsInTheGoldenFile holds that each field is set in some command of its type: a field that came later is in a
// line of its own, as lines are never changed.
func TestEveryFieldIsInTheGoldenFile(t *testing.T) {
	set := map[string]bool{}
	for _, c := range everyCommand {
		v := reflect.ValueOf(c)
		for i := range v.NumField() {
			name := c.Type() + ": " + v.Type().Field(i).Name
			set[name] = set[name] || !v.Field(i).IsZero()
		}
	}
	for name, ok := range set {
		if !ok {
			t.Errorf("%s is not set", name)
		}
	}
}

func TestDecodeCommandRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		want     error
	}{
		{"empty", "", state.ErrMalformed},
		{"no version", `{"type":"set_live"}`, state.ErrVersion},
		{"newer version", `{"v":2,"type":"set_live","shape":"unknown to us"}`, state.ErrVersion},
		{"newer type", `{"v":1,"type":"dance","body":{}}`, state.ErrVersion},
		{"unknown field", `{"v":1,"type":"forget_node","body":{"node":"a","at_ms":1,"x":1}}`, state.ErrVersion},
		{"missing field", `{"v":1,"type":"forget_node","body":{"node":"a"}}`, state.ErrMalformed},
		{"spaces", `{"v":1,"type":"forget_node","body":{"node":"a", "at_ms":1}}`, state.ErrMalformed},
		{"twice", `{"v":1,"type":"forget_node","body":{"node":"a","at_ms":1,"at_ms":1}}`, state.ErrMalformed},
		{"other case", `{"v":1,"type":"forget_node","body":{"Node":"a","at_ms":1}}`, state.ErrMalformed},
		{"trailing", `{"v":1,"type":"forget_node","body":{"node":"a","at_ms":1}}{}`, state.ErrMalformed},
		{"wrong type", `{"v":1,"type":"forget_node","body":{"node":1,"at_ms":1}}`, state.ErrMalformed},
		{"huge", strings.Repeat(" ", state.MaxCommandBytes+1), state.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := state.DecodeCommand([]byte(tt.in)); !errors.Is(err, tt.want) {
				t.Errorf("DecodeCommand = %v, %v, want %v", c, err, tt.want)
			}
		})
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range everyCommand {
		b, err := state.EncodeCommand(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := state.DecodeCommand(b)
		if err != nil {
			return
		}
		if again, err := state.EncodeCommand(c); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("encode(decode(x)) = %s, %v, want %s", again, err, b)
		}
		next, _, err := state.New().Apply(c) // Whatever was decoded can be applied without harm.
		if err != nil && state.ReasonOf(err) == "" {
			t.Fatalf("apply: %v", err)
		}
		if err := state.Check(next); err != nil {
			t.Fatalf("after %s: %v", b, err)
		}
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	s := state.New()
	for _, c := range everyCommand {
		s, _, _ = s.Apply(c)
	}
	b, err := state.EncodeSnapshot(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := state.DecodeSnapshot(b)
		if err != nil {
			return
		}
		if again, err := state.EncodeSnapshot(s); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("encode(decode(x)) differs: %v", err)
		}
	})
}

// TestPure holds that the package can't reach a clock, the network, the disk or anything random.
func TestPure(t *testing.T) {
	allowed := []string{
		"bytes", "cmp", "encoding/json", "errors", "fmt", "io", "maps", "slices", "strings", "unicode/utf8",
		"crypto/sha256", "encoding/base64", "encoding/binary", "encoding/hex", "iter", "math", "github.com/swarmd/swarmd/consensus/ledger",
		"github.com/swarmd/swarmd/identity/claim", "github.com/swarmd/swarmd/identity/naming", "github.com/swarmd/swarmd/identity/pattern",
		"github.com/swarmd/swarmd/identity/naming", "github.com/swarmd/swarmd/identity/pattern", "github.com/swarmd/swarmd/consensus/task", "github.com/swarmd/swarmd/internal/policy/rights",
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}
