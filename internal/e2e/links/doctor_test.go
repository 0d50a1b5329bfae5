package links_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// probed is a swarm of two SNs and three SLs, which never merge, and what the doctor finds there. before is done when all have registered.
func probed(t *testing.T, before func(w *swarm)) (found doctor.Swarm, code int) {
	w := newSwarm(t, 2)
	for i := 1; i <= 3; i++ {
		w.train(i, "MIN_PEERS=4", "BATCHES=2")
	}
	for i := 1; i <= 3; i++ {
		w.sls[i].Sees("registered with the swarm")
	}
	before(w)
	found, code = w.doctor()
	if len(found.Links) != 3*(2+2)+2 || len(found.Nodes) != 5 {
		t.Fatalf("%d links, %d nodes: %+v", len(found.Links), len(found.Nodes), found)
	}
	return found, code
}

func TestDoctorOfAHealthySwarm(t *testing.T) {
	found, code := probed(t, func(*swarm) {})
	if code != 0 || !found.OK {
		t.Errorf("exit code %d: %+v", code, found.Rows)
	}
	for _, l := range found.Links {
		if l.Status != doctor.OK || !l.Reached || l.RoundTripMS == nil || l.ClockMS == nil || (l.BytesPerSecond == nil) != l.API {
			t.Errorf("%+v", l)
		}
	}
	for _, n := range found.Nodes {
		if n.Status != doctor.OK || n.Version == "" || n.NotAfter == nil {
			t.Errorf("%+v", n)
		}
	}
}

// A firewall before one SL makes the directions to it red, with what to do, and no other.
func TestDoctorNamesAClosedPort(t *testing.T) {
	found, code := probed(t, func(w *swarm) {
		rule := w.Host(12).Command("iptables", "-w", "-A", "INPUT", "-p", "tcp", "--dport", "30305", "--syn", "-j", "REJECT", "--reject-with", "tcp-reset")
		if out, err := exec.CommandContext(t.Context(), rule[0], rule[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	if code != 1 || found.OK {
		t.Errorf("exit code %d", code)
	}
	for _, l := range found.Links {
		if red := l.To == "sl-2"; red != (l.Status == doctor.Failed) {
			t.Errorf("%+v", l)
		} else if red && (!strings.Contains(l.Detail, "nothing listens") || !strings.Contains(l.Remedy, "let TCP from the host of "+l.From+" to "+l.Address+" (sl-2)")) {
			t.Errorf("%+v", l)
		}
	}
}

// doctor runs swarmctl doctor at SN 1, and returns what it finds and its exit code.
func (w *swarm) doctor() (found doctor.Swarm, code int) {
	w.T.Helper()
	argv := w.Host(1).Command(filepath.Join(e2etest.BinDir, "swarmctl"), "doctor", "-o", "json", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))
	cmd := exec.CommandContext(w.T.Context(), argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = exit.ExitCode(), nil
	}
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &found)
	}
	if err != nil {
		w.T.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	return found, code
}
