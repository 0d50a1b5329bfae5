package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
)

func view(run, round, attempt, index uint64) *swarmv1.ContractView {
	v := &swarmv1.ContractView{Run: run, Index: index}
	if round > 0 {
		v.Committed = &swarmv1.CommittedRound{Round: round}
	}
	if attempt > 0 {
		v.Plan = &swarmv1.Plan{Round: round + 1, Attempt: attempt}
	}
	return v
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, seen *swarmv1.ContractView
		want      int
	}{
		{"first", view(1, 0, 0, 1), nil, 1},
		{"same", view(1, 1, 1, 5), view(1, 1, 1, 5), 0},
		{"later index", view(1, 1, 1, 6), view(1, 1, 1, 5), 1},
		{"earlier index", view(1, 1, 1, 4), view(1, 1, 1, 5), -1},
		{"older run", view(1, 9, 9, 9), view(2, 0, 0, 5), -1},
		{"newer run", view(2, 0, 0, 6), view(1, 9, 9, 5), 1},
		{"older round", view(1, 1, 5, 9), view(1, 2, 0, 5), -1},
		{"newer round", view(1, 3, 0, 6), view(1, 2, 4, 5), 1},
		{"older attempt", view(1, 2, 1, 9), view(1, 2, 2, 5), -1},
		{"plan given up", view(1, 2, 0, 9), view(1, 2, 2, 5), 1},
	} {
		if got := client.Newer(c.got, c.seen); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWatchSurvivesTheDeathOfItsSN(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	c := s.client("/swarm/sl", nil, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	views := make(chan *swarmv1.ContractView, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	stop := errors.New("seen enough")
	go func() {
		done <- c.WatchContract(ctx, state.DefaultContract, func(v *swarmv1.ContractView) error {
			views <- v
			if v.GetRun() == 3 {
				return stop
			}
			return nil
		})
	}()
	if v := <-views; v.GetRun() != 1 {
		t.Errorf("first view: %v", v)
	}
	a.kill()
	reset := func(run uint64) {
		must(s.core.Propose(t.Context(), state.ResetContract{Contract: state.DefaultContract, Run: run}))(t)
	}
	reset(1)
	for v := range views { // no view twice, none that goes back
		if v.GetRun() == 2 {
			break
		}
	}
	if got := c.SNs()[0]; got != b.addr {
		t.Errorf("watches %s, want %s", got, b.addr)
	}
	reset(2)
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An SN that is killed while it sends is no answer: the next one is asked.
func TestWatchSurvivesAMessageCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked []string
	c, err := client.New(client.Config{
		SNs: []string{"a:1", "b:1"}, SwarmID: swarmID, Log: slog.New(slog.DiscardHandler),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			if asked = append(asked, r.URL.Host); len(asked) == 2 {
				cancel()
				return nil, context.Canceled
			}
			body := io.MultiReader(strings.NewReader("\x00\x00"), iotest.ErrReader(syscall.ECONNRESET))
			head := http.Header{"Content-Type": {"application/connect+proto"}, client.HeaderSwarmID: {swarmID}}
			return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(body), Request: r}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = c.WatchContract(ctx, "c", func(*swarmv1.ContractView) error { return nil })
	if !errors.Is(err, context.Canceled) || !slices.Equal(asked, []string{"a:1", "b:1"}) {
		t.Errorf("asked %v, got %v; want the second SN to be asked", asked, err)
	}
}

// answer is a stream of one message.
func answer(t *testing.T, r *http.Request, v *swarmv1.ContractView) *http.Response {
	raw := must(proto.Marshal(v))(t)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
	head := http.Header{"Content-Type": {"application/connect+proto"}, client.HeaderSwarmID: {swarmID}}
	return &http.Response{StatusCode: http.StatusOK, Header: head, Body: io.NopCloser(bytes.NewReader(body)), Request: r}
}

// An update that does not fit makes the watcher ask for the whole view, and for one that is not packed in the end; it never
// makes a view.
func TestWatchAsksForTheWholeViewWhenAnUpdateDoesNotFit(t *testing.T) {
	var asked []bool // for packed views
	c, err := client.New(client.Config{
		SNs: []string{"a:1"}, SwarmID: swarmID, Log: slog.New(slog.DiscardHandler),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			raw := must(io.ReadAll(r.Body))(t)
			req := &swarmv1.WatchContractRequest{}
			if err := proto.Unmarshal(raw[5:], req); err != nil {
				t.Error(err)
			}
			if asked = append(asked, req.GetPacked()); !req.GetPacked() {
				return answer(t, r, view(1, 7, 0, 5)), nil
			}
			if r.Header.Get("Connect-Accept-Encoding") != "" {
				t.Error("packed views may be compressed once more")
			}
			return answer(t, r, &swarmv1.ContractView{Run: 1, Index: 9, Packed: &swarmv1.PackedView{Revision: 2, Updates: [][]byte{{0x08, 0x01}}}}), nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("seen")
	err = c.WatchContract(t.Context(), "c", func(v *swarmv1.ContractView) error {
		if !proto.Equal(v, view(1, 7, 0, 5)) {
			t.Errorf("got %v", v)
		}
		return stop
	})
	if !errors.Is(err, stop) || !slices.Equal(asked, []bool{true, true, false}) {
		t.Errorf("asked for packed views: %v; got %v", asked, err)
	}
}

func TestWatchOfAnUnknownContract(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	c := s.client("/swarm/sl", nil, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	err := c.WatchContract(t.Context(), "none", func(*swarmv1.ContractView) error { return nil })
	if client.Reason(err) != client.ReasonContractUnknown {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = c.WatchContract(ctx, state.DefaultContract, func(*swarmv1.ContractView) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v", err)
	}
}

func TestResetNamesTheRunItEnds(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	c := s.client("/swarm/swci", nil, a.addr)
	for want := uint64(2); want < 4; want++ {
		if run, err := (client.Operator{Client: c}).ResetContract(t.Context(), state.DefaultContract, false); err != nil || run != want {
			t.Errorf("run %d, %v; want %d", run, err, want)
		}
	}
	if _, err := (client.Operator{Client: c}).ResetContract(t.Context(), "none", false); client.Reason(err) != client.ReasonContractUnknown {
		t.Errorf("unknown contract: %v", err)
	}
}
