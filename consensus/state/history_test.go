package state_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/claim"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestHistory runs the scripts of testdata/history. Lines that begin with "> " are what the line above gave.
func TestHistory(t *testing.T) {
	files, err := filepath.Glob("testdata/history/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no history scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(script))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(script), got); diff != "" && !*update {
				t.Errorf("history differs (-want +got):\n%s", diff)
			}
		})
	}
}

func runScript(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	s, at := state.New(), int64(0)
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "> ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		at += 1000
		before, err := state.EncodeSnapshot(s)
		if err != nil {
			t.Fatal(err)
		}
		c := parseCommand(t, s, line, at)
		next, result, err := s.Apply(c)
		if err != nil {
			fmt.Fprintf(&out, "> %s: %v\n", state.ReasonOf(err), err)
		} else if !result.Changed {
			fmt.Fprintln(&out, "> as before")
		} else {
			fmt.Fprint(&out, show(next, field(line, "contract", state.DefaultContract)))
		}
		if err := state.Check(next); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		after, err := state.EncodeSnapshot(s)
		if err != nil || string(after) != string(before) {
			t.Fatalf("%q changed the state that it was applied to: %v", line, err)
		}
		s = next
	}
	return out.String()
}

// show prints one contract and all nodes, short enough to read.
func show(s *state.State, name string) string {
	var b strings.Builder
	c := s.Contracts[name]
	if c == nil {
		return "> gone\n"
	}
	fmt.Fprintf(&b, "> %s run %d round %d attempt %d", c.Phase(), c.Run, c.Round(), c.Attempt)
	if c.Terms != nil {
		fmt.Fprintf(&b, " terms %s", c.Terms)
	}
	if c.PendingReason != "" {
		fmt.Fprintf(&b, " (%s)", c.PendingReason)
	}
	if h := c.Halt; h != nil {
		fmt.Fprintf(&b, " halted by %s at %d s, ends=%t", h.By, h.AtMS/1000, h.Ends)
	}
	b.WriteString("\n")
	if c.Plan != nil {
		fmt.Fprintf(&b, "> plan %d/%d final=%t:", c.Plan.Round, c.Plan.Attempt, c.Plan.Final)
		for _, p := range c.Plan.Participants {
			fmt.Fprintf(&b, " %s[%d+%d)w%d", p.Node, p.ShardFirst, p.ShardLeaves, p.Weight)
			for _, r := range p.MoreShards {
				fmt.Fprintf(&b, "[%d+%d)", r.First, r.Leaves)
			}
		}
		if c.Plan.Epoch > 0 {
			fmt.Fprintf(&b, " epoch %d", c.Plan.Epoch)
		}
		b.WriteString("\n")
	}
	for _, id := range slices.Sorted(maps.Keys(c.Sessions)) {
		x := c.Sessions[id]
		fmt.Fprintf(&b, "> session %s of %s: %s last %d/%d", strings.TrimLeft(id, "0"), x.Node, x.State, x.LastSeq, x.LastRound)
		if x.SkippedSeq > 0 {
			fmt.Fprintf(&b, " skipped %d", x.SkippedSeq)
		}
		if x.CheckinFrom != "" || x.ClosedRounds > 0 {
			fmt.Fprintf(&b, " %s by %q counted %d", x.CheckinMode, x.CheckinFrom, x.ClosedRounds)
			if x.CountedIn > 0 {
				fmt.Fprintf(&b, ", first in round %d", x.CountedIn)
			}
		}
		if x.EndReason != "" {
			fmt.Fprintf(&b, " %q", x.EndReason)
		}
		b.WriteString("\n")
	}
	var nodes []string
	for _, n := range s.NodesByRole("") {
		mark := "+"
		if !n.Live {
			mark = "-"
		}
		if n.Left() {
			mark = "left(" + n.LeftReason + ")"
		}
		nodes = append(nodes, mark+n.Name)
	}
	fmt.Fprintf(&b, "> nodes %s\n", strings.Join(nodes, " "))
	for _, id := range s.BannedPeers() {
		x := s.Banned(id)
		fmt.Fprintf(&b, "> ban of %s (%q) by %s: %q\n", id, x.Name, x.By, x.Reason)
	}
	for _, a := range s.Admissions() {
		fmt.Fprintf(&b, "> admission of %s (%q) by %q", a.PeerID, a.Name, a.By)
		if a.Invitation > 0 {
			fmt.Fprintf(&b, " through invitation %d", a.Invitation)
		}
		b.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(kept(s))) {
		i := s.Invitations.Of(name)
		fmt.Fprintf(&b, "> invitation %d of %s until %d s, claimed by %q\n", i.Number, name, i.ExpiresMS/1000, i.ClaimedBy)
	}
	return b.String()
}

func field(line, key, def string) string {
	for _, f := range strings.Fields(line) {
		if v, ok := strings.CutPrefix(f, key+"="); ok {
			return v
		}
	}
	return def
}

func number(t *testing.T, line, key string, def uint64) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(field(line, key, fmt.Sprint(def)), 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n
}

func hexOf(s string, n int) string { return strings.Repeat("0", max(0, n-len(s))) + s }

func terms(layout string, minPeers uint64) state.Terms {
	return state.Terms{LayoutDigest: strings.Repeat(layout, 64), Layout: []byte(layout), Leaves: 7, Method: "mean", MinPeers: uint32(minPeers)}
}

// asking are terms with another method; "none" leaves it open.
func asking(t state.Terms, method string) state.Terms {
	if t.Method = method; method == "none" {
		t.Method = ""
	}
	return t
}

// parseCommand reads "verb argument key=value…".
func parseCommand(t *testing.T, s *state.State, line string, at int64) state.Command {
	t.Helper()
	words := strings.Fields(line)
	verb, arg := words[0], ""
	if len(words) > 1 && !strings.Contains(words[1], "=") {
		arg = words[1]
	}
	contract := field(line, "contract", state.DefaultContract)
	c := s.Contracts[contract]
	if c == nil {
		c = &state.Contract{Run: 1}
	}
	run := number(t, line, "run", c.Run)
	round := number(t, line, "round", c.Round()+1)
	switch verb {
	case "init":
		c := state.InitSwarm{SwarmID: arg, AtMS: at}
		if f := field(line, "founder", ""); f != "" {
			c.Founder = &state.Admission{Name: f, PeerID: "key-" + f, AtMS: at}
		}
		return c
	case "admit":
		return state.AdmitNode{Node: arg, PeerID: field(line, "key", "key-"+arg), By: "spiffe://a.example/swarm/swci", AtMS: at}
	case "invite":
		return state.InviteNode{
			Node: arg, SPIFFEID: field(line, "id", "spiffe://a.example/swarm/sn/"+arg), Key: claim.KeyOf(secretOf(field(line, "secret", arg))),
			ExpiresMS: max(at+1000*int64(number(t, line, "for", 60)), 1000*int64(number(t, line, "until", 0))), By: "spiffe://a.example/swarm/swci", AtMS: at,
		}
	case "claim":
		return claiming(arg, field(line, "key", "key-"+arg), field(line, "secret", arg), field(line, "id", "spiffe://a.example/swarm/sn/"+arg), field(line, "signed", "swarm-1"), at)
	case "register":
		return state.RegisterNode{
			Node:      state.Node{Name: arg, Role: field(line, "role", "sl"), PeerID: field(line, "key", "key-"+arg), Host: "127.0.0.1", SPIFFEID: field(line, "id", "")},
			TokenHash: hexOf(field(line, "token", "1"), 64), AtMS: at,
		}
	case "forget":
		return state.ForgetNode{Node: arg, AtMS: at}
	case "leave":
		return state.LeaveNode{Node: arg, TokenHash: hexOf(field(line, "token", "1"), 64), Reason: field(line, "reason", "stopped"), AtMS: at}
	case "ban":
		return state.BanNode{PeerID: arg, Reason: field(line, "reason", ""), By: "spiffe://a.example/swarm/swci", AtMS: at}
	case "unban":
		return state.UnbanNode{PeerID: arg, AtMS: at}
	case "live":
		return state.SetLive{Node: arg, Live: true, AtMS: at}
	case "dead":
		return state.SetLive{Node: arg, AtMS: at}
	case "open":
		return state.OpenSession{
			Session: hexOf(arg, 32), Contract: contract, Node: field(line, "node", ""),
			Terms:         asking(terms(field(line, "layout", "a"), number(t, line, "min", 2)), field(line, "method", "mean")),
			ExpectedPeers: uint32(number(t, line, "expected", 0)), SyncFrequency: 10, Weight: 1, AtMS: at,
			Late: field(line, "late", "") == "true", KeepKey: field(line, "keepkey", "") == "true",
			CheckinMode: field(line, "mode", ""), CheckinDefault: field(line, "default", ""), KeepChooser: field(line, "chooser", "") == "true",
		}
	case "create":
		rules := state.Rules{
			Method: field(line, "method", ""), Least: uint32(number(t, line, "least", 0)), MinPeers: uint32(number(t, line, "min", 0)),
			NonFinite: field(line, "nonfinite", ""), CheckinDefault: field(line, "default", ""),
		}
		if r := field(line, "required", ""); r != "" {
			rules.Required = strings.Split(r, ",")
		}
		return state.CreateContract{Contract: contract, Rules: rules, AtMS: at}
	case "fail":
		return state.FailContract{Contract: contract, Run: run, Reason: field(line, "reason", "below"), Below: field(line, "below", "") == "true", AtMS: at}
	case "close":
		return state.CloseSession{Session: hexOf(arg, 32), Contract: contract, Run: run, CheckinMode: field(line, "mode", ""), Seq: number(t, line, "seq", 9), AtMS: at}
	case "end":
		return state.EndSession{Session: hexOf(arg, 32), Contract: contract, Run: run, Reason: strings.ReplaceAll(field(line, "reason", "finished"), "_", " "), AtMS: at}
	case "plan":
		plan := state.PlanRound{
			Contract: contract, Run: run, Round: round, Attempt: number(t, line, "attempt", c.Attempt+1),
			Participants: participants(c, field(line, "with", ""), number(t, line, "leaves", 7), uint32(number(t, line, "weight", 1))),
			Final:        field(line, "final", "") == "true", Reason: field(line, "reason", ""), AtMS: at,
			Epoch: number(t, line, "epoch", c.Epoch()), Allotted: field(line, "allotted", "") == "true",
		}
		for i, p := range plan.Participants {
			if slices.Contains(strings.Split(field(line, "mute", "none"), ","), strings.TrimLeft(p.Session, "0")) {
				plan.Participants[i].Weight = 0
			}
		}
		if parts, err := allotted(s, c, plan); err == nil {
			plan.Participants = parts
		}
		return plan
	case "skip":
		sessions := map[string]uint64{}
		for _, id := range strings.Split(field(line, "of", ""), ",") {
			sessions[hexOf(id, 32)] = number(t, line, "seq", c.Round()+1)
		}
		return state.SkipRound{
			Contract: contract, Run: run, Round: round, Attempt: number(t, line, "attempt", c.Attempt), Sessions: sessions, Reason: "owners are gone", AtMS: at,
		}
	case "cancel":
		return state.CancelPlan{Contract: contract, Run: run, Round: round, Attempt: number(t, line, "attempt", c.Attempt), Reason: field(line, "reason", "gone"), AtMS: at}
	case "commit":
		return state.CommitRound{
			Contract: contract, Run: run, Round: round, Attempt: number(t, line, "attempt", c.Attempt),
			Digest: hexOf(field(line, "digest", "d"), 64), NextInterval: 10, AtMS: at, KeepCounted: field(line, "keep", "") == "true",
		}
	case "lose":
		l := state.LoseModel{Contract: contract, Run: run, Round: number(t, line, "round", c.Round()), ResumedRound: number(t, line, "to", 0), AtMS: at}
		if l.ResumedRound > 0 {
			l.ResumedDigest = hexOf(field(line, "digest", "c"), 64)
		}
		if c.Committed != nil {
			l.Digest = c.Committed.Digest
		}
		if lost := field(line, "lost", ""); lost != "" {
			l.Digest = hexOf(lost, 64)
		}
		return l
	case "finish":
		return state.FinishContract{Contract: contract, Run: run, Round: number(t, line, "round", c.Round()), Reason: "nobody came", AtMS: at}
	case "pause":
		return state.PauseContract{Contract: contract, Run: number(t, line, "run", 0), AtMS: at, Order: anOrder("PauseContract")}
	case "resume":
		return state.ResumeContract{HaltOrder: state.HaltOrder{Contract: contract, Run: number(t, line, "run", 0), AtMS: at, Order: anOrder("ResumeContract")}}
	case "finalise":
		return state.EndContract{Contract: contract, Run: number(t, line, "run", 0), AtMS: at, Order: anOrder("EndContract")}
	case "delete":
		return state.DeleteContract{Contract: contract, Run: number(t, line, "run", 0), Force: field(line, "force", "") == "true", AtMS: at}
	case "expire":
		return state.ExpireContract{Contract: contract, Run: number(t, line, "run", 0), AtMS: at + state.UnusedMS}
	case "reset":
		return state.ResetContract{Contract: contract, Run: number(t, line, "run", 0), Force: field(line, "force", "") == "true", AtMS: at}
	}
	t.Fatalf("unknown verb in %q", line)
	return nil
}

// allotted gives a plan the shards that it must have, if it says that it has them.
func allotted(s *state.State, c *state.Contract, plan state.PlanRound) ([]state.Participant, error) {
	if !plan.Allotted || c.Terms == nil {
		return plan.Participants, nil
	}
	return s.Allot(c, plan.Participants)
}

// participants plans the sessions named in "1,2" with equal shards of all leaves.
func participants(c *state.Contract, ids string, leaves uint64, weight uint32) []state.Participant {
	var parts []state.Participant
	list := strings.Split(ids, ",")
	next := uint64(0)
	for i, id := range list {
		p := state.Participant{Session: hexOf(id, 32), Weight: weight, Seq: c.Round() + 1, ShardFirst: next}
		p.ShardLeaves = leaves / uint64(len(list))
		if i == len(list)-1 {
			p.ShardLeaves = leaves - next
		}
		next += p.ShardLeaves
		if s := c.Sessions[p.Session]; s != nil {
			p.Node, p.Seq = s.Node, max(p.Seq, s.SkippedSeq+1)
		}
		parts = append(parts, p)
	}
	return parts
}
