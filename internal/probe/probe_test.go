package probe_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/probe"
)

// lab is an SL that answers probes, on a clock of the test's.
type lab struct {
	*testing.T
	swarm *p2ptest.Swarm
	host  *p2p.Host
	agent *probe.Agent
	now   time.Time
	busy  func() string
}

const merging = "a merge is under way"

func idle() string { return "" }

func newLab(t *testing.T) *lab {
	l := &lab{T: t, swarm: p2ptest.New(t), now: time.Now(), busy: idle}
	l.host = l.swarm.Host(identity.RoleSL, "5eed")
	l.agent = l.prober(l.host)
	l.agent.Serve()
	return l
}

func (l *lab) prober(host *p2p.Host) *probe.Agent {
	return probe.New(probe.Config{
		Network: host.Network(), Version: "v1", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return l.now }, Busy: func() string { return l.busy() },
	})
}

// let names who may probe, in a run.
func (l *lab) let(run uint64, from ...*p2p.Host) {
	job := &swarmv1.ProbeJob{Run: run, Seconds: 90}
	for _, h := range from {
		job.FromPeerIds = append(job.FromPeerIds, h.ID().String())
	}
	l.agent.Take(job)
}

// open begins a probe by hand and returns the answer's status, its text, and the stream.
func (l *lab) open(from *p2p.Host, kind byte) (byte, string, p2p.Conn) {
	l.Helper()
	s, err := from.Network().Dial(l.Context(), p2ptest.AddrOf(l.T, l.host), probe.Protocol, true, func(p2p.Peer) error { return nil })
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = s.Reset() })
	if _, err := s.Write([]byte{kind}); err != nil {
		l.Fatal(err)
	}
	status, why := l.status(s)
	return status, why, s
}

func (l *lab) status(s p2p.Conn) (byte, string) {
	l.Helper()
	var head [2]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		l.Fatal(err)
	}
	why := make([]byte, head[1])
	if _, err := io.ReadFull(s, why); err != nil {
		l.Fatal(err)
	}
	return head[0], string(why)
}

// pings answers to the pings of a probe that was let in.
func (l *lab) pings(s p2p.Conn) {
	l.Helper()
	var clock [8]byte
	for range 3 {
		if _, err := s.Write([]byte{0}); err != nil {
			l.Fatal(err)
		}
		if _, err := io.ReadFull(s, clock[:]); err != nil {
			l.Fatal(err)
		}
	}
}

// TestWhoMayProbe: only whom the leader names, while a probe goes on, one at a time, each once in a while.
func TestWhoMayProbe(t *testing.T) {
	l := newLab(t)
	a, b, stranger := l.swarm.Host(identity.RoleSL, "5eed"), l.swarm.Host(identity.RoleSL, "5eed"), l.swarm.Host(identity.RoleSL, "5eed")
	refused := func(what string, from *p2p.Host, want byte, text string) {
		t.Helper()
		if status, why, _ := l.open(from, 1); status != want || !strings.Contains(why, text) {
			t.Errorf("%s: %d %q", what, status, why)
		}
	}
	refused("before any probe", a, 1, "no probe goes on")
	l.let(1, a, b)
	refused("one that is not named", stranger, 2, "names no such node")
	status, why, held := l.open(a, 1)
	if status != 0 {
		t.Fatalf("one that is named: %q", why)
	}
	refused("while another is answered", b, 1, "answers another probe")
	l.pings(held)
	if _, err := held.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the answer's end: %v", err)
	}
	refused("again at once", a, 2, "a moment ago")
	l.let(2, stranger)
	refused("another job within the minute", stranger, 2, "names no such node")
	l.now = l.now.Add(2 * time.Minute)
	refused("after its time", b, 1, "no probe goes on")
	l.let(3, b)
	if status, why, _ := l.open(b, 1); status != 0 {
		t.Errorf("in the next probe: %q", why)
	}
}

// TestGreedyProberIsCutOff sends more than a probe may.
func TestGreedyProberIsCutOff(t *testing.T) {
	l := newLab(t)
	greedy := l.swarm.Host(identity.RoleSL, "5eed")
	l.let(1, greedy)
	status, why, s := l.open(greedy, 2)
	if status != 0 {
		t.Fatal(why)
	}
	l.pings(s)
	if status, why = l.status(s); status != 0 {
		t.Fatal(why)
	}
	chunk := make([]byte, 1+64<<10)
	chunk[0] = 1
	sent := 0
	for ; sent < 2*probe.MaxBytes; sent += len(chunk) {
		if _, err := s.Write(chunk); err != nil {
			break
		}
	}
	if sent >= 2*probe.MaxBytes {
		t.Errorf("%d bytes were taken, at most %d are", sent, probe.MaxBytes)
	}
}

// TestNothingIsMeasuredDuringAMerge: the answering side knows of one that the other does not.
func TestNothingIsMeasuredDuringAMerge(t *testing.T) {
	l := newLab(t)
	l.busy = func() string { return merging }
	a := l.swarm.Host(identity.RoleSL, "5eed")
	l.let(1, a)
	status, _, s := l.open(a, 2)
	if status != 0 {
		t.Fatal(status)
	}
	l.pings(s)
	if status, why := l.status(s); status != 2 || why != merging {
		t.Errorf("%d %q", status, why)
	}
}

// TestAMergeStopsMeasuring: on the side that answers, which takes no more.
func TestAMergeStopsMeasuring(t *testing.T) {
	l := newLab(t)
	var begun atomic.Bool
	l.busy = func() string {
		if begun.Load() {
			return merging
		}
		return ""
	}
	a := l.swarm.Host(identity.RoleSL, "5eed")
	l.let(1, a)
	status, why, s := l.open(a, 2)
	if status != 0 {
		t.Fatal(why)
	}
	l.pings(s)
	if status, why = l.status(s); status != 0 {
		t.Fatal(why)
	}
	begun.Store(true)
	chunk := make([]byte, 1+64<<10)
	chunk[0] = 1
	for sent := 0; sent < probe.MaxBytes-len(chunk); sent += len(chunk) {
		if _, err := s.Write(chunk); err != nil {
			return
		}
	}
	// What the kernel holds may have swallowed all; the end that measuring has shows no rate.
	if _, err := s.Write([]byte{0}); err == nil {
		if _, err = io.ReadFull(s, make([]byte, 16)); err == nil {
			t.Error("it measures on while a merge is under way")
		}
	}
}

// TestOwnMergeStopsMeasuring: on the side that measures, which keeps what it has seen of the way.
func TestOwnMergeStopsMeasuring(t *testing.T) {
	l := newLab(t)
	own := l.swarm.Host(identity.RoleSL, "5eed")
	l.let(1, own)
	var asked atomic.Int32
	prober := probe.New(probe.Config{Network: own.Network(), Version: "v2", Log: slog.New(slog.DiscardHandler), Busy: func() string {
		if asked.Add(1) > 3 { // before it dials, then before each 64 KiB
			return merging
		}
		return ""
	}})
	at := p2ptest.AddrOf(t, l.host)
	report, err := prober.Do(t.Context(), &swarmv1.ProbeJob{Run: 1, Seconds: 90, Targets: []*swarmv1.ProbeTarget{
		{Node: "peer", Role: "sl", PeerId: l.host.ID().String(), Host: at.Host, Port: uint32(at.Port)},
	}})
	if err != nil || len(report.GetResults()) != 1 {
		t.Fatalf("%v, %v", report, err)
	}
	r := report.GetResults()[0]
	if r.GetProblem() != "" || r.GetBytesPerSecond() != 0 || r.GetUnmeasured() != "stopped: "+merging || r.GetRoundTripUs() <= 0 || !r.GetClockKnown() {
		t.Errorf("%v", r)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times: it went on", n)
	}
}

// TestALeaderThatLiesHasNobodyDialled: targets that the node does not know itself, or that its owner does not allow, are named, not dialled.
func TestALeaderThatLiesHasNobodyDialled(t *testing.T) {
	l := newLab(t)
	victim, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	_, digits, _ := net.SplitHostPort(victim.Addr().String())
	port, _ := strconv.ParseUint(digits, 10, 16)
	prober := probe.New(probe.Config{
		Network: l.swarm.Host(identity.RoleSL, "5eed").Network(), Source: l.swarm.Source("sl", ""), Domains: l.swarm.Domains, Log: slog.New(slog.DiscardHandler),
		Known: func(_ context.Context, targets []*swarmv1.ProbeTarget) []bool {
			known := make([]bool, len(targets))
			for i, t := range targets {
				known[i] = t.GetNode() == "foe"
			}
			return known
		},
		Allow: func(id string) error {
			if id == "foe" {
				return errors.New("--allow-peer of this node does not name it")
			}
			return nil
		},
	})
	target := func(node, role string, api bool) *swarmv1.ProbeTarget {
		return &swarmv1.ProbeTarget{Node: node, Role: role, SpiffeId: node, PeerId: someID(t).String(), Host: "127.0.0.1", Port: uint32(port), Api: api}
	}
	report, err := prober.Do(t.Context(), &swarmv1.ProbeJob{Run: 1, Seconds: 90, Targets: []*swarmv1.ProbeTarget{target("peer", "sl", false), target("sn", "sn", true), target("foe", "sl", false)}})
	if err != nil || len(report.GetResults()) != 3 {
		t.Fatalf("%v, %v", report, err)
	}
	for i, want := range []string{doctor.NotKnown, doctor.NotKnown, "not dialled: --allow-peer of this node does not name it"} {
		if got := report.GetResults()[i].GetProblem(); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	own, err := net.Dial("tcp", victim.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := victim.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("the address was dialled")
	}
}

// someID is the peer ID of a node that is nowhere.
func someID(t *testing.T) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestAgentsProbeEachOther: what is reached is measured, once; what is not is named.
func TestAgentsProbeEachOther(t *testing.T) {
	l := newLab(t)
	own := l.swarm.Host(identity.RoleSL, "5eed")
	l.let(1, own)
	prober := probe.New(probe.Config{Network: own.Network(), Version: "v2", Log: slog.New(slog.DiscardHandler)})
	at := p2ptest.AddrOf(t, l.host)
	target := func(node string, port int, id peer.ID, role string) *swarmv1.ProbeTarget {
		return &swarmv1.ProbeTarget{Node: node, Role: role, PeerId: id.String(), Host: at.Host, Port: uint32(port)}
	}
	report, err := prober.Do(t.Context(), &swarmv1.ProbeJob{Run: 1, Seconds: 90, Targets: []*swarmv1.ProbeTarget{
		target("well", at.Port, l.host.ID(), "sl"), target("closed", 1, someID(t), "sl"), target("another", at.Port, own.ID(), "sl"), target("other role", at.Port, someID(t), "sn"), target("well again", at.Port, l.host.ID(), "sl"),
	}})
	if err != nil || len(report.GetResults()) != 4 || report.GetVersion() != "v2" {
		t.Fatalf("%v, %v", report, err)
	}
	for i, want := range []string{"", "nothing listens there", "another node answers there", "sn"} {
		r := report.GetResults()[i]
		if !strings.Contains(r.GetProblem(), want) || (want == "") != (r.GetProblem() == "") {
			t.Errorf("%s: %q", r.GetNode(), r.GetProblem())
		}
	}
	if well := report.GetResults()[0]; well.GetRoundTripUs() <= 0 || well.GetBytesPerSecond() <= 0 || !well.GetClockKnown() {
		t.Errorf("%v", well)
	}
	if _, err := prober.Do(t.Context(), &swarmv1.ProbeJob{Run: 2, Seconds: 90}); err == nil {
		t.Error("another probe within the minute was begun")
	}
}
