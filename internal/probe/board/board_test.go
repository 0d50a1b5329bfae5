package board_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/probe/board"
)

// swarmOf has so many SNs and SLs.
func swarmOf(sns, sls int) *state.State {
	s := &state.State{Nodes: map[string]*state.Node{}}
	for i := range sns {
		n := &state.Node{Name: fmt.Sprint("sn-", i), Role: "sn", Host: "h", PeerID: fmt.Sprint("n", i), P2PPort: 1, APIPort: 2, FSPort: 3}
		s.Nodes[n.Name] = n
	}
	for i := range sls {
		n := &state.Node{Name: fmt.Sprint("sl-", i), Role: "sl", Host: "h", PeerID: fmt.Sprint("l", i), FSPort: 4, Live: true}
		s.Nodes[n.Name] = n
	}
	return s
}

// told is what the board answers to a node's heartbeat.
func told(b *board.Board, node string, report *swarmv1.ProbeReport) *swarmv1.ReportResponse {
	res := &swarmv1.ReportResponse{}
	b.Take(node, report)
	b.Tell(node, report, res)
	return res
}

func TestBoardGivesEachDirectionOnce(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	b := board.New(func() time.Time { return now })
	view := swarmOf(2, 3)
	view.Nodes["sl-9"] = &state.Node{Name: "sl-9", Role: "sl"} // not live
	run, err := b.Start(view)
	if err != nil {
		t.Fatal(err)
	}
	shown := b.Show()
	if len(shown.GetLinks()) != 2*1+3*(2+2) || len(shown.GetNodes()) != 5 || shown.GetOver() || shown.GetRun() != run {
		t.Errorf("%d links, %d nodes: %v", len(shown.GetLinks()), len(shown.GetNodes()), shown)
	}
	job := told(b, "sl-1", nil).GetProbe()
	if got := fmt.Sprint(job.GetTargets()[2].GetNode(), job.GetTargets()[3].GetNode(), job.GetFromPeerIds()); got != "sl-2sl-0[l2 l0]" || !job.GetTargets()[0].GetApi() || job.GetTargets()[0].GetPort() != 2 {
		t.Errorf("the job of sl-1: %s: %v", got, job)
	}
	if res := told(b, "sl-1", &swarmv1.ProbeReport{Run: run}); res.GetProbe() != nil || res.GetProbeRun() != run {
		t.Errorf("a node that has its job is told %v", res)
	}
	if res := told(b, "sl-9", nil); res.GetProbe() != nil || res.GetProbeRun() != 0 {
		t.Errorf("one that takes no part is told %v", res)
	}
}

func TestBoardBoundsProbes(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	b := board.New(func() time.Time { return now })
	view := swarmOf(1, 2)
	first, err := b.Start(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{0, 59 * time.Second} {
		now = time.UnixMilli(1_000_000).Add(wait)
		if _, err := b.Start(view); !errors.Is(err, board.ErrBusy) || !strings.Contains(err.Error(), "may begin in") {
			t.Errorf("after %s: %v", wait, err)
		}
	}
	now = time.UnixMilli(1_000_000).Add(61 * time.Second)
	if second, err := b.Start(view); err != nil || second <= first {
		t.Errorf("after a minute: %d, %v", second, err)
	}
	if _, err := board.New(nil).Start(swarmOf(5, 70)); !errors.Is(err, board.ErrTooLarge) {
		t.Errorf("70 SLs: %v", err)
	}
}

func TestBoardTakesOnlyWhatItAskedFor(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	b := board.New(func() time.Time { return now })
	run, err := b.Start(swarmOf(0, 2))
	if err != nil {
		t.Fatal(err)
	}
	result := func(node, problem string) *swarmv1.ProbeReport {
		return &swarmv1.ProbeReport{Run: run, Version: "v\x1b1", Results: []*swarmv1.ProbeResult{{Node: node, Problem: problem, RoundTripUs: -4}}}
	}
	b.Take("sl-0", result("sl-0", "itself"))
	b.Take("stranger", result("sl-0", "no part"))
	b.Take("sl-0", &swarmv1.ProbeReport{Run: run - 1, Results: []*swarmv1.ProbeResult{{Node: "sl-1"}}})
	for _, l := range b.Show().GetLinks() {
		if l.GetResult() != nil {
			t.Errorf("%v", l)
		}
	}
	b.Take("sl-0", result("sl-1", "first\x1b[2J"))
	b.Take("sl-0", result("sl-1", "second"))
	l := b.Show().GetLinks()[0]
	if r := l.GetResult(); !strings.HasPrefix(r.GetProblem(), "first") || strings.Contains(r.GetProblem(), "\x1b") || r.GetRoundTripUs() != 0 || strings.Contains(b.Show().GetNodes()[0].GetVersion(), "\x1b") {
		t.Errorf("%v", l)
	}
	if b.Show().GetOver() {
		t.Error("it is over before sl-1 has said anything")
	}
	b.Take("sl-1", result("sl-0", ""))
	if !b.Show().GetOver() || told(b, "sl-1", nil).GetProbeRun() != 0 {
		t.Error("it is not over when all have said all")
	}
	if large := (&swarmv1.ProbeReport{Results: make([]*swarmv1.ProbeResult, board.MaxTargets+1)}); board.ReportFits(large) {
		t.Error("so many results are no report")
	}
}

// TestBoardEndsWithoutAnAnswer: a node that says nothing does not keep a probe going.
func TestBoardEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board.New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- b.Run(ctx, func(ctx context.Context, sn *state.Node, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
				if sn.Name == "sn-0" {
					return &swarmv1.ProbeReport{Run: job.GetRun(), Version: "v1", Results: []*swarmv1.ProbeResult{{Node: "sn-1"}}}, nil
				}
				<-ctx.Done()
				return nil, errors.New("no answer")
			})
		}()
		if _, err := b.Start(swarmOf(2, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if b.Show().GetOver() {
			t.Error("it is over before its time")
		}
		time.Sleep(board.MaxSeconds * time.Second)
		shown := b.Show()
		if !shown.GetOver() || shown.GetNodes()[1].GetProblem() != "no answer" || shown.GetNodes()[0].GetVersion() != "v1" {
			t.Errorf("%v", shown)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAnErrorOfAnEarlierProbe is not noted in the next one, which may not even have the SN that it is of.
func TestAnErrorOfAnEarlierProbe(t *testing.T) {
	for _, sns := range []int{2, 1} { // in the second probe
		t.Run(fmt.Sprint(sns), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := board.New(nil)
				first, err := b.Start(swarmOf(2, 0))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				late, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- b.Run(ctx, func(_ context.Context, _ *state.Node, job *swarmv1.ProbeJob) (*swarmv1.ProbeReport, error) {
						if job.GetRun() == first {
							<-late // it does not look at its time
							return nil, errors.New("too late")
						}
						return &swarmv1.ProbeReport{Run: job.GetRun()}, nil
					})
				}()
				time.Sleep(2 * board.MaxSeconds * time.Second)
				second, err := b.Start(swarmOf(sns, 0))
				if err != nil || second == first {
					t.Fatalf("probe %d: %v", second, err)
				}
				close(late)
				synctest.Wait()
				for _, n := range b.Show().GetNodes() {
					if n.GetProblem() != "" {
						t.Errorf("%s has the problem of the probe before: %s", n.GetName(), n.GetProblem())
					}
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestKnownSNs: an SN takes no leader's word for where others are.
func TestKnownSNs(t *testing.T) {
	view := &state.State{Nodes: map[string]*state.Node{
		"sn-0": {Name: "sn-0", Role: "sn", PeerID: "p0", Host: "10.0.0.1", P2PPort: 30303, APIPort: 30304, FSPort: 30305},
		"sl-0": {Name: "sl-0", Role: "sl", PeerID: "p1", Host: "10.0.0.2", FSPort: 30305},
	}}
	targets := []*swarmv1.ProbeTarget{
		{Role: "sn", PeerId: "p0", Host: "10.0.0.1", Port: 30303},
		{Role: "sn", PeerId: "p0", Host: "10.0.0.9", Port: 30303},
		{Role: "sn", PeerId: "p0", Host: "10.0.0.1", Port: 22},
		{Role: "sn", PeerId: "p9", Host: "10.0.0.1", Port: 30303},
		{Role: "sn", PeerId: "p0", Host: "10.0.0.1", Port: 30303, Api: true},
		{Role: "sn", PeerId: "p1", Host: "10.0.0.2", Port: 30305},
	}
	if got := board.KnownSNs(view, targets); !slices.Equal(got, []bool{true, false, false, false, false, false}) {
		t.Error(got)
	}
}
