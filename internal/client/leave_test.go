package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/merge"
)

// smallTerms are those of a model of ten numbers.
func smallTerms(t *testing.T) *swarmv1.Terms {
	t.Helper()
	l := must(merge.NewLayout([]merge.Tensor{{Name: "w", DType: must(merge.ParseDType("float32"))(t), Shape: []int64{10}}}))(t)
	return &swarmv1.Terms{LayoutDigest: l.Digest().String(), Layout: l.Canonical(), Method: "mean", MinPeers: 1}
}

// A heartbeat that is refused while the node leaves must not register it again.
func TestNothingRegistersAgainAfterALeave(t *testing.T) {
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/sl", nil, s.start("sn-0").addr)
	reg := registration(t, "sl-0")
	if err := c.Register(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	if err := c.LeaveNode(t.Context(), "stopped"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Report(t.Context(), &swarmv1.ReportRequest{}); err != nil {
		t.Errorf("a late heartbeat: %v", err)
	}
	if err := c.LeaveNode(t.Context(), "stopped"); err != nil {
		t.Errorf("again: %v", err)
	}
	must(s.core.Propose(t.Context(), state.ForgetNode{Node: "sl-0"}))(t)
	_, err := c.Report(t.Context(), &swarmv1.ReportRequest{})
	if client.Reason(err) != client.ReasonTokenRefused || s.core.View().Nodes["sl-0"] != nil {
		t.Errorf("a heartbeat after a leave: %v, node %+v", err, s.core.View().Nodes["sl-0"])
	}
	if err := c.Register(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	if n := s.core.View().Nodes["sl-0"]; n == nil || n.Left() {
		t.Errorf("after it registered: %+v", n)
	}
}

// Who has no time left does not wait for a registration that is under way: it lasts as long as SNs are away.
func TestNobodyWaitsForARegistrationLongerThanItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/sl", nil, silent.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // which one that waits would wait for
	defer cancel()
	ended, reg := make(chan error, 1), registration(t, "sl-0")
	go func() { ended <- c.Register(ctx, reg) }()
	conn, err := silent.Accept() // it has begun
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	over, end := context.WithCancel(t.Context())
	end()
	for name, call := range map[string]func(context.Context) error{
		"renew": c.Renew, "leave": func(ctx context.Context) error { return c.LeaveNode(ctx, "stopped") },
		"register": func(ctx context.Context) error { return c.Register(ctx, reg) },
	} {
		if err := call(over); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("they returned when the registration had ended: %v", err)
	default:
		cancel()
		<-ended
	}
}

// A node that leaves while its registration is tried, and has no time to wait for that, is not registered after all, whichever SN is back.
func TestALeaveEndsARegistrationThatIsTriedAgain(t *testing.T) {
	s := newSwarm(t, swarmID)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := s.client("/swarm/sl", nil, silent.Addr().String(), s.start("sn-0").addr)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Register(ctx, registration(t, "sl-0")) }()
	conn, err := silent.Accept() // it has begun
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	err = c.LeaveNode(over, "stopped")
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "leave the swarm: a registration is under way: ") {
		t.Errorf("leave: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the node is leaving") {
		t.Errorf("register: %v", err)
	}
	if n := s.core.View().Nodes["sl-0"]; n != nil {
		t.Errorf("it is registered: %+v", n)
	}
}

// slowKey signs when it is told to.
type slowKey struct {
	p2pcrypto.PrivKey

	asked, sign chan struct{}
}

func (k slowKey) Sign(data []byte) ([]byte, error) {
	close(k.asked)
	<-k.sign
	return k.PrivKey.Sign(data)
}

// Who leaves amid a registration, after its challenge, is not registered.
func TestNobodyIsRegisteredWhoHasLeftMeanwhile(t *testing.T) {
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/sl", nil, s.start("sn-0").addr)
	ended, reg := make(chan error, 1), registration(t, "sl-0")
	key := slowKey{reg.Key, make(chan struct{}), make(chan struct{})}
	reg.Key = key
	go func() { ended <- c.Register(t.Context(), reg) }()
	<-key.asked
	over, end := context.WithCancel(t.Context())
	end()
	if err := c.LeaveNode(over, "stopped"); !errors.Is(err, context.Canceled) {
		t.Errorf("leave: %v", err)
	}
	close(key.sign)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the node is leaving") {
		t.Errorf("register: %v", err)
	}
	if n := s.core.View().Nodes["sl-0"]; n != nil {
		t.Errorf("it is registered: %+v", n)
	}
}

// A node that is taken for gone, but is not, registers again by itself.
func TestRegistersAgainWhenItCountsAsLeft(t *testing.T) {
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/sl", nil, s.start("sn-0").addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	hash := s.core.View().Nodes["sl-0"].TokenHashes[0]
	must(s.core.Propose(t.Context(), state.LeaveNode{Node: "sl-0", TokenHash: hash, Reason: "stopped"}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.OpenSession(ctx, &swarmv1.OpenSessionRequest{
		Session: strings.Repeat("a", 32), Contract: "study", SyncFrequency: 16, Weight: 1, Terms: smallTerms(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.core.View().Nodes["sl-0"]; n.Left() || !n.Live {
		t.Errorf("%+v", n)
	}
}

// A path that does not print must not keep a session from opening.
func TestIsolationIsMadePrintable(t *testing.T) {
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/sl", nil, s.start("sn-0").addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	const said = "container, open: mount /srv/a\u00a0b\u202ec\n"
	req := &swarmv1.OpenSessionRequest{
		Session: strings.Repeat("a", 32), Contract: "study", SyncFrequency: 16, Weight: 1, Terms: smallTerms(t), Isolation: said,
	}
	view, err := c.OpenSession(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := view.GetSessions()[0].GetIsolation(); got != "container, open: mount /srv/a?b?c?" || req.GetIsolation() != said {
		t.Errorf("isolation %q, the request's %q", got, req.GetIsolation())
	}
}
