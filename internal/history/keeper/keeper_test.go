package keeper_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
	"github.com/swarmd/swarmd/internal/history/keeper"
)

// group is the group of SNs as one sees it that leads, with the others' answers.
type group struct {
	view   *state.State
	others map[string]http.RoundTripper
}

func (g group) View() *state.State                    { return g.view }
func (group) Changed() <-chan struct{}                { return nil }
func (group) LedgerAfter(uint64) ([]byte, error)      { return nil, nil }
func (group) LeaderSeen() time.Time                   { return time.Time{} }
func (group) IsLeader() bool                          { return true }
func (group) Barrier(context.Context) error           { return nil }
func (group) Leader() (name, address string, ok bool) { return "sn-1", "", true }
func (g group) Others() map[string]http.RoundTripper  { return g.others }
func (group) WithLeader(ctx context.Context, try func(context.Context, http.RoundTripper) error) error {
	return try(ctx, nil)
}

// to is the way to a handler.
type to struct{ http.Handler }

func (w to) RoundTrip(r *http.Request) (*http.Response, error) {
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	return out.Result(), nil
}

// TestAnSNWithoutAHistoryServes: a directory that can't be opened is said with a remedy, once in the log and to who asks.
func TestAnSNWithoutAHistoryServes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, history.Dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	k := keeper.Open("sn-1", dir, group{view: state.New()}, slog.New(slog.NewTextHandler(&said, nil)))
	if !strings.Contains(said.String(), "curves are not kept") || !strings.Contains(said.String(), "move the directory away") {
		t.Errorf("said %s", &said)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	_, err := k.Answer(&swarmv1.GetHistoryRequest{Contract: "c"}, 1)
	if connect.CodeOf(err) != connect.CodeUnimplemented || !strings.Contains(err.Error(), "start the SN again") || strings.Contains(err.Error(), "\n") {
		t.Errorf("asked, it says %v", err)
	}
}

// TestOneSNAsksAnother that does not lead for what it has kept.
func TestOneSNAsksAnother(t *testing.T) { synctest.Test(t, oneSNAsksAnother) }

func oneSNAsksAnother(t *testing.T) {
	theirs, mine := t.TempDir(), t.TempDir()
	log := slog.New(slog.DiscardHandler)
	store, err := history.Open(filepath.Join(theirs, history.Dir), history.Limits{}, log)
	if err != nil {
		t.Fatal(err)
	}
	loss := 0.5
	for n := uint64(1); n <= 700; n++ {
		if err := store.Put("c", 2, &history.Round{Round: n, Peers: []history.Peer{{Node: "sl-0", Loss: &loss}}}); err != nil {
			t.Fatal(err)
		}
	}
	store.Close()
	asked := keeper.Open("sn-2", theirs, group{view: state.New()}, log)
	on := group{
		view:   &state.State{SwarmID: "s", Contracts: map[string]*state.Contract{"c": {Name: "c", Run: 2, Committed: &state.CommittedRound{Round: 700}}}},
		others: map[string]http.RoundTripper{"sn-2": to{asked.Beside(http.NotFoundHandler())}},
	}
	k := keeper.Open("sn-1", mine, on, log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	time.Sleep(time.Minute)
	got, err := k.Answer(&swarmv1.GetHistoryRequest{Contract: "c"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil || len(got.GetRounds()) != 700 || got.GetRounds()[698].GetPeers()[0].GetLoss() != loss {
		t.Errorf("%v, got %d rounds", err, len(got.GetRounds()))
	}
}

// TestADeletedContractIsNotShown where one of its name is there, as an earlier run or as that which is asked for; a run before a reset is.
func TestADeletedContractIsNotShown(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	store, err := history.Open(filepath.Join(dir, history.Dir), history.Limits{}, log)
	if err != nil {
		t.Fatal(err)
	}
	for run := uint64(1); run <= 2; run++ {
		if err := store.Put("c", run, &history.Round{Round: 1, CommittedMS: int64(1000 * run)}); err != nil {
			t.Fatal(err)
		}
	}
	store.Close()
	for _, createdMS := range []int64{500, 1500} {
		want := map[int64]int{500: 1}[createdMS]
		k := keeper.Open("sn-1", dir, group{view: &state.State{Contracts: map[string]*state.Contract{"c": {Name: "c", Run: 2, CreatedMS: createdMS}}}}, log)
		now, err := k.Answer(&swarmv1.GetHistoryRequest{Contract: "c"}, 2)
		if err != nil || len(now.GetRounds()) != 1 || len(now.GetEarlier()) != want {
			t.Errorf("created at %d: %v, %v", createdMS, now, err)
		}
		before, err := k.Answer(&swarmv1.GetHistoryRequest{Contract: "c", Run: 1}, 2)
		if err != nil || len(before.GetRounds()) != want {
			t.Errorf("created at %d, of run 1: %v, %v", createdMS, before, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := k.Run(ctx); err != nil { // which closes the history
			t.Error(err)
		}
	}
}
