package nodetest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/consent"
	"github.com/swarmd/swarmd/internal/policy"
	hosts "github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/node/nodetest"
)

// owned is a host whose owner is asked about each task: all of it is the product's but for what is carried out.
type owned struct {
	t      *testing.T
	guest  nodetest.Guest
	op     client.Tasks
	policy *policy.Policy
	dir    string
	cancel context.CancelFunc
	parts  sync.WaitGroup
	ran    []string // assignments and epochs that were started

	mu      sync.Mutex
	all     []task.Hosted
	known   bool
	changed chan struct{}
}

func own(t *testing.T, s *nodetest.Swarm, op client.Tasks) *owned {
	t.Helper()
	p, err := policy.Unwritten(policy.Ask, "swarm.test")
	if err != nil {
		t.Fatal(err)
	}
	o := &owned{t: t, guest: s.Guest(naming.RoleSWOP, 0), op: op, policy: p, dir: t.TempDir(), changed: make(chan struct{})}
	o.start()
	return o
}

// start starts the host's process, for the first time or again.
func (o *owned) start() {
	o.t.Helper()
	domains, err := identity.NewDomains(spiffeid.RequireTrustDomainFromString("swarm.test"))
	if err != nil {
		o.t.Fatal(err)
	}
	journal, err := consent.OpenJournal(o.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		o.t.Fatal(err)
	}
	guard := consent.New(consent.Config{
		Verifier: consent.Verifier{Source: o.guest.Source, Domains: domains, Node: o.guest.Name, Taskrunner: task.DefaultTaskrunner}, SwarmID: func() string { return nodetest.SwarmID },
		Policy: o, Journal: journal, Log: slog.New(slog.DiscardHandler),
	})
	host := hosts.New(hosts.Config{
		SwarmID: nodetest.SwarmID, Node: o.guest.Name, Swarm: o, Tasks: o, Guard: asking{guard}, Log: slog.New(slog.DiscardHandler),
		Types: map[string]hosts.Type{task.PullImage: {Executor: o, Repeats: true}},
	})
	ctx, cancel := context.WithCancel(o.t.Context())
	o.cancel = cancel
	api := client.Host{Client: o.guest.Client}
	if err := api.Register(ctx, client.Registration{Key: o.guest.Key, Node: client.NodeInfo{
		Name: o.guest.Name, Role: naming.RoleSWOP, Host: o.guest.Name, Offer: &task.Offer{Taskrunner: task.DefaultTaskrunner, Peers: 1},
	}}); err != nil {
		o.t.Fatal(err)
	}
	o.parts.Go(func() { _ = api.WatchAssignments(ctx, o.see) })
	o.parts.Go(func() {
		for ctx.Err() == nil {
			sent := time.Now()
			if _, err := api.Report(ctx, &swarmv1.ReportRequest{}, host.Report()); err == nil {
				host.Heard(sent)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	o.parts.Go(func() {
		_ = host.Run(ctx)
		_ = journal.Close()
	})
}

// stop ends the host's process.
func (o *owned) stop() {
	o.cancel()
	o.parts.Wait()
}

func (o *owned) see(all []task.Hosted) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all, o.known = all, true
	close(o.changed)
	o.changed = make(chan struct{})
	return nil
}

// Hosted implements work.Swarm.
func (o *owned) Hosted() ([]task.Hosted, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all, o.known
}

// Changed implements work.Swarm.
func (o *owned) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// Task implements work.Tasks.
func (o *owned) Task(ctx context.Context, name string) (*task.Task, error) {
	got, err := o.op.GetTask(ctx, name)
	if err != nil {
		return nil, err
	}
	t := got.GetTask()
	return &task.Task{
		Name: t.GetName(), Type: t.GetType(), Author: t.GetAuthor(), Prereq: t.GetPrereq(), Outcome: t.GetOutcome(), Definition: got.GetDefinition(), Digest: t.GetDigest(),
	}, nil
}

// Decide implements consent.Policy.
func (o *owned) Decide(_ context.Context, by string, h *task.Hosted, t *task.Task, _ *policy.Image) consent.Verdict {
	d := o.policy.Decide(policy.Request{Submitter: by, Swarm: nodetest.SwarmID, Taskrunner: h.Taskrunner, Task: t.Name, Type: t.Type, Digest: t.Digest, Runtime: "docker"})
	return consent.Verdict{
		Decision: map[policy.Verdict]consent.Decision{policy.Allowed: consent.Allowed, policy.Asked: consent.Asked, policy.Refused: consent.Refused}[d.Verdict],
		Sentence: d.String(),
	}
}

// Keeps implements consent.Policy.
func (o *owned) Keeps(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) consent.Verdict {
	return o.Decide(ctx, by, h, t, image)
}

// Hopes implements consent.Policy. Its tasks have no image that somebody finds.
func (o *owned) Hopes(by string, h *task.Hosted, t *task.Task) consent.Verdict {
	return o.Decide(o.t.Context(), by, h, t, nil)
}

// Approves implements consent.Policy.
func (o *owned) Approves(approver, submitter string) error {
	return o.policy.Approves(approver, submitter)
}

// asking is a guard as a host's loop knows it.
type asking struct{ *consent.Guard }

// Until is never: the owner limits no hours.
func (asking) Until(string, uint32) (at time.Time, why string) { return at, why }

// Consent implements work.Guard.
func (g asking) Consent(ctx context.Context, h task.Hosted, t *task.Task) hosts.Answer {
	a := g.Ask(ctx, &h, t)
	return hosts.Answer{May: map[consent.Decision]hosts.May{consent.Allowed: hosts.Yes, consent.Asked: hosts.NotYet, consent.Refused: hosts.No}[a.Decision], Why: a.Words}
}

// Stays implements work.Guard. The host of these tests finds nothing that runs.
func (g asking) Stays(context.Context, task.Hosted, *task.Task) hosts.Answer { return hosts.Answer{} }

// Tells implements work.Guard.
func (g asking) Tells(string) bool { return true }

// Prepare implements work.Executor.
func (*owned) Prepare(context.Context, hosts.Job) error { return nil }

// Start implements work.Executor.
func (o *owned) Start(_ context.Context, j hosts.Job) (hosts.Status, error) {
	o.ran = append(o.ran, fmt.Sprint(j.Label.Assignment, " ", j.Epoch))
	return hosts.Status{State: task.Exited}, nil
}

// Find implements work.Executor.
func (*owned) Find(context.Context) ([]hosts.Found, error) { return nil, nil }

// Clean implements work.Executor.
func (*owned) Clean(context.Context, hosts.Label) error { return nil }

// TestAHostIsAsked: it waits for an operator whom its owner's policy names and who is not the one that asked, says why another's word does not
// count, knows after a restart what it was told, and obeys a refusal. The ledger has who said what, and the audit finds it good.
func TestAHostIsAsked(t *testing.T) {
	history(t, nodetest.Config{SNs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		a := newAssignments(t, s, 0)
		o := own(t, s, a.op)
		defer o.stop()
		bob := client.Tasks{By: client.Operator{Client: s.Guest(naming.RoleSWCI, 7).Client}}
		member := func(id, state, words string) {
			t.Helper()
			s.Until("the host to be "+state+" with "+words, func() bool {
				m := a.get(id).GetMembers()
				return len(m) == 1 && m[0].GetState() == state && strings.Contains(m[0].GetText(), words)
			})
		}
		part := func(id string) *swarmv1.PartOfHost {
			return &swarmv1.PartOfHost{
				Assignment: id, Task: "pull", Digest: a.digest, Taskrunner: task.DefaultTaskrunner, Host: o.guest.Name, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
			}
		}
		const waits = "waits for approval: swarmctl approve task pull on swop-0"
		first := a.assign(1, 0)
		member(first, "asked", waits)
		if _, err := a.op.ApproveTask(t.Context(), &swarmv1.ApproveTaskRequest{Part: part(first)}); err == nil {
			t.Error("who asked for it approves it")
		}
		late := part(first)
		late.ExpiresUnixMs = time.Now().Add(50 * time.Millisecond).UnixMilli() // the host sees it later
		o.stop()
		if _, err := bob.ApproveTask(t.Context(), &swarmv1.ApproveTaskRequest{Part: late}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		o.start()
		member(first, "asked", waits+"; the word of spiffe://swarm.test/swarm/swci/swci-7 does not count: its order has expired")
		if _, err := bob.RefuseTask(t.Context(), &swarmv1.RefuseTaskRequest{Part: part(first), Reason: "not today"}); err != nil {
			t.Fatal(err)
		}
		a.over(first, "failed", o.guest.Name+" refused: refused by spiffe://swarm.test/swarm/swci/swci-7: not today")

		second := a.assign(1, 0)
		member(second, "asked", waits)
		gone := s.Leader()
		s.Crash(gone)
		if _, err := bob.ApproveTask(t.Context(), &swarmv1.ApproveTaskRequest{Part: part(second)}); err != nil {
			t.Fatal(err)
		}
		a.over(second, "succeeded", "")
		s.Restart(gone)
		if got := strings.Join(o.ran, ", "); got != second+" 1" {
			t.Errorf("it ran %q", got)
		}
		var b bytes.Buffer
		_, err := s.Operator().ReadLedger(t.Context(), &b)
		a.must(err)
		var said []string
		for line := range bytes.Lines(b.Bytes()) {
			_, body, err := ledger.Parse(line)
			a.must(err)
			if x, ok := body.(ledger.Approval); ok && x.By == "spiffe://swarm.test/swarm/swci/swci-7" {
				said = append(said, fmt.Sprintf("%t %t %q", x.Assignment == second, x.Refused, x.Reason))
			}
		}
		if got := strings.Join(said, ", "); got != `false false "", false true "not today", true false ""` {
			t.Errorf("the ledger has %q", got)
		}
		a.check()
	})
}
