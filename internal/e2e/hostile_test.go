package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/identity/gatetest"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/merge"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

const (
	apiPort, p2pPort, fsPort = "30304", "30303", "30305"

	hostileBatches = 24
	hostileSize    = 20_000
	// floodLasts bounds the floods, should the training not end.
	floodLasts = 40 * time.Second
	// memoryOfSN is far above what an SN may take for all calls, 256 MiB, and below what a few calls took it to without bounds.
	memoryOfSN = 512 << 20
)

// TestTrainingGoesOnAmongHostileOnes has an outsider flood the ports of three SNs and five SLs with silent connections, and a
// registered SL flood the API with whatever it may say, and a program spoil the weight files of its SL, while the five train. The model they end with is the one that the
// test computes from what they handed in, to the bit.
func TestTrainingGoesOnAmongHostileOnes(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.namedAuthority("rogue", "/swarm/sl/rogue", 5)
	var sns []*e2etest.Proc
	for i := 1; i <= 3; i++ {
		sns = append(sns, w.SN(i))
	}
	for _, p := range sns {
		p.Sees(apiMarker)
	}
	var ports []string
	for i := 1; i <= 3; i++ {
		ports = append(ports, net.JoinHostPort(w.Addr(i), apiPort), net.JoinHostPort(w.Addr(i), p2pPort))
	}
	for i := 1; i <= 5; i++ {
		ports = append(ports, net.JoinHostPort(w.Addr(10+i), fsPort))
	}
	src := w.sourceOf("rogue")
	ctx, cancel := context.WithTimeout(t.Context(), floodLasts)
	defer cancel()

	var sls []*e2etest.Proc
	for i := 1; i <= 5; i++ {
		sls = append(sls, w.SL(i, "WHOLE=1", "MIN_PEERS=5", fmt.Sprintf("WEIGHT=%d", hostileWeight(i)), "--expected-peers=5",
			fmt.Sprintf("SIZE=%d", hostileSize), fmt.Sprintf("BATCHES=%d", hostileBatches), "BATCH_SECONDS=0.1"))
	}
	for _, p := range sls {
		p.Sees("round=1 ")
	}
	flood := gatetest.StartAll(t, ports, 400*len(ports), nil)
	rogue := newRogue(t, w, src)
	rogue.start(ctx)
	dials := honestDials(ctx, w)
	spoiled := make(chan int, 1)
	go func() { spoiled <- (&garbler{dir: w.Bridge(2), held: make(map[string]*os.File)}).run(ctx) }()
	stopFlood := context.AfterFunc(ctx, flood.Stop)
	defer stopFlood()

	for _, p := range sls {
		p.Ends(2 * e2etest.Timeout)
	}
	end := w.Agree(1, 2, 3, 4, 5)
	if want := meanOfHonest(); end.SHA256 != want {
		t.Errorf("the model's digest is %s, want %s: the mean of what five SLs handed in", end.SHA256, want)
	}
	cancel()
	flood.Stop()
	rogue.wg.Wait()
	t.Logf("%d rounds; %d silent connections", end.Rounds, flood.Opened())
	if n := <-spoiled; n == 0 {
		t.Error("no weight file was taken back that a program could have spoiled")
	} else {
		t.Logf("weight files spoiled by a program that had them open: %d", n)
	}
	honest := <-dials
	if good := len(honest.took); good > 0 {
		t.Logf("honest dials: %d, median %s, worst %s; failed: %d", good, honest.took[good/2], honest.took[good-1], honest.failed)
	}
	if len(honest.took) < honest.failed {
		t.Errorf("%d honest dials were answered and %d failed, want most answered", len(honest.took), honest.failed)
	}
	t.Logf("the rogue's calls: %s", rogue)
	for i, p := range sns {
		select {
		case <-p.Done:
			t.Errorf("%s ended: %s", p.Name, p.Cmd.ProcessState)
			continue
		default:
		}
		most := peakMemory(t, p)
		t.Logf("sn-%d: at most %d MiB", i+1, most>>20)
		if most > memoryOfSN {
			t.Errorf("sn-%d took %d MiB, want %d at most", i+1, most>>20, memoryOfSN>>20)
		}
	}
	if made := w.contractsOf("rogue"); made == 0 || made > state.MaxContractsMade {
		t.Errorf("the rogue holds %d contracts, want some, and its quota at most", made)
	}
}

// namedAuthority serves the roles as ever, SLs with names of their own, and a socket with the identity of a rogue.
func (w *swarm) namedAuthority(socket, path string, sls int) {
	w.T.Helper()
	cfg := embedded.Config{Dir: w.Path("ca"), Log: slog.New(slog.DiscardHandler), Paths: map[string][]string{socket: {path}}}
	for i := 1; i <= sls; i++ {
		cfg.Paths[fmt.Sprintf("sl-%d", i)] = []string{fmt.Sprintf("/swarm/sl/sl-%d", i)}
	}
	shared := w.Identity
	w.Identity = func(role string, i int) []string {
		if role == "sl" {
			return []string{"--socket-path", embedded.SocketPath(w.Path("ca"), fmt.Sprintf("sl-%d", i))}
		}
		return shared(role, i)
	}
	a, err := embedded.New(cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.T.Error(err)
		}
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- nil
		w.T.Fatal(err)
	}
}

// sourceOf opens the identity of a socket.
func (w *swarm) sourceOf(socket string) *identity.WorkloadSource {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), e2etest.Timeout)
	defer cancel()
	src, err := identity.OpenSource(ctx, identity.SourceConfig{
		Socket: embedded.SocketPath(w.Path("ca"), socket), Name: socket, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = src.Close() })
	return src
}

func ownDomain(t *testing.T) identity.Domains {
	t.Helper()
	domains, err := identity.NewDomains(spiffeid.RequireTrustDomainFromString(embedded.DefaultTrustDomain))
	if err != nil {
		t.Fatal(err)
	}
	return domains
}

// hostileWeight makes a sum of eight: with it, and whole numbers, float32 holds every mean exactly.
func hostileWeight(sl int) int {
	if sl == 5 {
		return 4
	}
	return 1
}

// meanOfHonest is the digest of the model that train.py with WHOLE=1 must end with: what all SLs begin with and add, in
// their weights. Where rounds fall does not matter, as a mean adds up.
func meanOfHonest() string {
	var raw []byte
	for i := range hostileSize {
		sum := 0
		for sl := 1; sl <= 5; sl++ {
			for step := range hostileBatches + 1 {
				sum += hostileWeight(sl) * ((7*sl+13*step+31*i)%19 - 9)
			}
		}
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(sum)/8))
	}
	raw = append(raw, make([]byte, 3*8)...) // "b"
	digest := sha256.Sum256(raw)
	return hex.EncodeToString(digest[:])
}

// rogue is a registered SL that floods the API.
type rogue struct {
	w      *swarm
	src    *identity.WorkloadSource
	client *client.Client
	wg     sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	header  http.Header    // of its last call: swarm, name and token
	answers map[string]int // by what was asked and what came of it
}

func newRogue(t *testing.T, w *swarm, src *identity.WorkloadSource) *rogue {
	t.Helper()
	r := &rogue{w: w, src: src, answers: map[string]int{}}
	r.client = w.clientAs(src, func(h http.Header) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.header = h.Clone()
	})
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Timeout)
	defer cancel()
	err := r.client.Register(ctx, client.Registration{
		Node: client.NodeInfo{Name: "rogue", Role: identity.RoleSL, Host: w.Addr(99), FSPort: 30305, Runtime: "process"},
		Key:  p2ptest.NewKey(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Report(ctx, &swarmv1.ReportRequest{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// start floods until ctx ends: SN 1 with sessions, SN 2 with bodies.
func (r *rogue) start(ctx context.Context) {
	body := bytes.Repeat([]byte("<"), 4<<20-1)
	header := http.Header{"Content-Type": {"application/proto"}}
	r.mu.Lock()
	for name, values := range r.header {
		if strings.HasPrefix(name, "Swarm-") {
			header[name] = values
		}
	}
	r.mu.Unlock()
	for i := range 8 {
		r.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r.session(ctx, i, n)
			}
		})
	}
	for range 64 {
		r.wg.Go(func() { r.bodies(ctx, net.JoinHostPort(r.w.Addr(2), apiPort), header, body) })
	}
}

// note counts an answer.
func (r *rogue) note(answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[answer]++
}

// outcome is what came of a call, in a word.
func outcome(err error) string {
	if err == nil {
		return "done"
	}
	return cmp.Or(client.Reason(err), "no answer in time")
}

func (r *rogue) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for what, n := range r.answers {
		out = append(out, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// session opens a session in a contract that nobody has heard of, with a layout of its own, and ends it for a reason that
// grows in JSON.
func (r *rogue) session(ctx context.Context, i, n int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it does not wait for its turn
	defer cancel()
	id, contract := fmt.Sprintf("%032x", i<<32|n), fmt.Sprintf("evil-%d-%d", i, n)
	layout, err := manyTensors(contract)
	if err != nil {
		r.w.T.Error(err)
		return
	}
	_, err = r.client.OpenSession(ctx, &swarmv1.OpenSessionRequest{
		Session: id, Contract: contract, SyncFrequency: 1, CheckinMode: "snapshot", Weight: 1, TotalEpochs: 1,
		Terms: &swarmv1.Terms{LayoutDigest: layout.Digest().String(), Layout: layout.Canonical(), Method: "mean", MinPeers: 2},
	})
	r.note("OpenSession: " + outcome(err))
	err = r.client.EndSession(ctx, &swarmv1.EndSessionRequest{Session: id, Contract: contract, Run: 1, Reason: strings.Repeat("<", 4096)})
	r.note("EndSession: " + outcome(err))
}

// manyTensors is a layout of about 100 KiB.
func manyTensors(name string) (*merge.Layout, error) {
	float32s, err := merge.ParseDType("float32")
	if err != nil {
		return nil, err
	}
	tensors := make([]merge.Tensor, 500)
	for i := range tensors {
		tensors[i] = merge.Tensor{Name: fmt.Sprintf("%s-%0150d", name, i), DType: float32s, Shape: []int64{1}}
	}
	return merge.NewLayout(tensors)
}

// bodies sends as much as a call may have, over a connection of its own, again and again.
func (r *rogue) bodies(ctx context.Context, addr string, header http.Header, body []byte) {
	transport := &http.Transport{TLSClientConfig: identity.ClientTLS(r.src, ownDomain(r.w.T), identity.RoleSN), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(4 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+swarmv1connect.SessionServiceOpenSessionProcedure, bytes.NewReader(body))
		if err != nil {
			r.w.T.Error(err)
			return
		}
		req.Header = header.Clone()
		answer := "hung up"
		if res, err := transport.RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			answer = res.Status
		}
		r.note("large body: " + answer)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// dialled is how long dials took, ascending, and how many failed.
type dialled struct {
	took   []time.Duration
	failed int
}

// honestDials makes calls on connections of their own, one after another, until ctx ends, and tells what came of them.
func honestDials(ctx context.Context, w *swarm) <-chan dialled {
	src, domains := w.sourceOf("sl-1"), ownDomain(w.T)
	out := make(chan dialled, 1)
	go func() {
		var took []time.Duration
		failed := 0
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			start := time.Now()
			addr := net.JoinHostPort(w.Addr(1+n%3), apiPort)
			transport := &http.Transport{TLSClientConfig: identity.ClientTLS(src, domains, identity.RoleSN), DisableKeepAlives: true}
			c := http.Client{Transport: transport, Timeout: e2etest.Timeout}
			res, err := c.Get("https://" + addr + "/is_up")
			if err == nil {
				took = append(took, time.Since(start))
				_ = res.Body.Close()
			} else {
				failed++
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		slices.Sort(took)
		out <- dialled{took, failed}
	}()
	return out
}

// peakMemory is the most that a process has had in memory.
func peakMemory(t *testing.T, p *e2etest.Proc) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("peak memory of %s: %v", p.Name, err)
	}
	return kib << 10
}

// contractsOf is how many contracts a node's sessions made, as the state counts.
func (w *swarm) contractsOf(node string) int {
	w.T.Helper()
	code, out := w.swarmctl("list", "nodes", "-o", "json")
	var list struct {
		Nodes []struct {
			Name string
			Use  struct{ Contracts, Bytes int }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		w.T.Fatalf("list nodes: %d %v: %s", code, err, out)
	}
	for _, n := range list.Nodes {
		if n.Name == node {
			w.T.Logf("the state holds of %s: %+v", node, n.Use)
			return n.Use.Contracts
		}
	}
	return -1
}
