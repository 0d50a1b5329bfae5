package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// probedAPI is a swarm whose probe has found what a test gives it.
type probedAPI struct {
	healthAPI
	found   *swarmv1.GetProbeResponse
	refused error
}

func (p *probedAPI) StartProbe(context.Context) (uint64, error) { return p.found.GetRun(), p.refused }

func (p *probedAPI) GetProbe(context.Context) (*swarmv1.GetProbeResponse, error) {
	return p.found, p.refused
}

// examined runs the doctor against a swarm.
func examined(t *testing.T, swarm *probedAPI, terminal bool, args ...string) (string, error) {
	t.Helper()
	state := t.TempDir()
	var out bytes.Buffer
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: func() time.Time { return time.UnixMilli(11_000) },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		IsTerminal: func(io.Writer) bool { return terminal },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) {
		return answering(t, swarm), func() {}, nil
	}
	err := swci.Execute(t.Context(), append([]string{"doctor", "--sn=10.0.0.1:30304"}, args...), &swci.Session{Env: env, Connect: connect})
	return out.String(), err
}

func wardOfTwo() *probedAPI {
	well := func(name, role string) *swarmv1.NodeHealth {
		return &swarmv1.NodeHealth{Name: name, Role: role, Healthy: true, UntilUnixMs: 71_000, SvidNotAfterUnixMs: 311_000, LeaderSeenUnixMs: 11_000}
	}
	return &probedAPI{
		healthAPI: healthAPI{answers: []client.SNHealth{{Name: "sn-0", Address: "10.0.0.1:30304", Nodes: []*swarmv1.NodeHealth{well("sn-0", "sn"), well("sl-1", "sl"), well("sl-2", "sl")}}}},
		found: &swarmv1.GetProbeResponse{
			Run: 7, Over: true,
			Nodes: []*swarmv1.ProbeNode{{Name: "sn-0", Role: "sn", Version: "v1"}, {Name: "sl-1", Role: "sl", Version: "v1"}, {Name: "sl-2", Role: "sl", Version: "v1"}},
			Links: []*swarmv1.ProbeLink{
				{From: "sl-1", To: "sl-2", Address: "10.0.0.3:30305", Result: &swarmv1.ProbeResult{RoundTripUs: 1500, ClockKnown: true, BytesPerSecond: 100 << 20}},
				{From: "sl-2", To: "sl-1", Address: "10.0.0.2:30305", Result: &swarmv1.ProbeResult{RoundTripUs: 1500, ClockKnown: true, Unmeasured: "a merge is under way"}},
			},
		},
	}
}

func TestDoctorOfAHealthySwarm(t *testing.T) {
	out, err := examined(t, wardOfTwo(), false)
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"ok    sl-1  sl-2  10.0.0.3:30305  1.5 ms      100.0 MiB/s  +0.0 ms  -\n", "a merge is under way\n", "ok    sl-1  sl    v1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("colour, and no terminal: %q", out)
	}
	if out, _ := examined(t, wardOfTwo(), true); !strings.Contains(out, "\x1b[32mok") {
		t.Errorf("a terminal shows no colour: %q", out)
	}
}

func TestDoctorNamesALinkThatFails(t *testing.T) {
	swarm := wardOfTwo()
	swarm.found.Links[1].Result = &swarmv1.ProbeResult{Problem: "dial tcp 10.0.0.2:30305: no answer\x1b[2J"}
	out, err := examined(t, swarm, false)
	if exit.Code(err) != exit.Failed || !strings.Contains(out, "FAIL  sl-2  sl-1  10.0.0.2:30305") || !strings.Contains(out, "-> let TCP from the host of sl-2 to 10.0.0.2:30305 (sl-1)") || strings.Contains(out, "\x1b") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = examined(t, swarm, false, "-o", "json")
	var found doctor.Swarm
	if jsonErr := json.Unmarshal([]byte(out), &found); jsonErr != nil || exit.Code(err) != exit.Failed || found.OK || found.Links[1].Status != doctor.Failed || found.Links[0].Status != doctor.OK || !found.Links[0].Reached || found.Links[1].Reached {
		t.Errorf("%v, %v: %+v", err, jsonErr, found)
	}
}

// TestDoctorWithoutAProbe: what keeps the SNs from a probe is a row, and nodes are shown all the same.
func TestDoctorWithoutAProbe(t *testing.T) {
	swarm := wardOfTwo()
	swarm.refused = exit.New(exit.Denied, "ask an operator", "your role may not")
	out, err := examined(t, swarm, false)
	if exit.Code(err) != exit.Failed || !strings.Contains(out, "FAIL  probe  the SNs start none: ") || !strings.Contains(out, "sl-1") || !strings.Contains(out, "-> ask an operator") {
		t.Errorf("%v\n%s", err, out)
	}
	swarm = wardOfTwo()
	swarm.found.Nodes[1].Version = ""
	swarm.found.Links[0].Result = nil
	out, err = examined(t, swarm, false)
	if exit.Code(err) != exit.Failed || !strings.Contains(out, "it takes no part in the probe") || !strings.Contains(out, "not checked: sl-1 did not answer") || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a node that does not answer: %v\n%s", err, out)
	}
}
