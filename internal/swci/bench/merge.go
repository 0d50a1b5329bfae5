// Package bench measures how fast a swarm on this machine merges models.
package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/merge"
)

const (
	maxPeers  = 128
	maxSNs    = 50
	maxSize   = 64 << 30
	maxRounds = 10_000
)

// Config is what `bench merge` was asked for.
type Config struct {
	Peers, SNs, Rounds int
	Size               int64         // of one model in bytes, a multiple of 4
	Method             string        // how models are merged; empty: mean
	Netns              bool          // each node in a network namespace of its own; needs root
	Link               int64         // of each SL, in bits per second and direction, with Netns; 0: not bounded
	Pause              time.Duration // of all programs, before each round that counts; not negative
	Swarmd             string
	Environ            []string
	Note               func(string) // progress for people; never nil
}

// Result is what `bench merge -o json` prints: these keys and no others.
type Result struct {
	Peers              int     `json:"peers"`
	Bytes              int64   `json:"bytes"`
	Rounds             int     `json:"rounds"`
	RoundMedian        float64 `json:"round_seconds_median"`
	RoundP95           float64 `json:"round_seconds_p95"`
	SentPerPeer        float64 `json:"sent_bytes_per_peer"`
	CPUSeconds         float64 `json:"cpu_seconds"`
	PeakRSS            int64   `json:"peak_rss_bytes"`
	PeakRSSAnon        int64   `json:"peak_rss_anon_bytes"`
	TLSBytesPerSecond  float64 `json:"tls_bytes_per_second"`
	ModelSeconds       float64 `json:"model_seconds"`
	LinkBytesPerSecond float64 `json:"link_bytes_per_second,omitempty"` // only with Config.Link
	Congestion         string  `json:"congestion_control,omitempty"`    // of the nodes' connections; only with Config.Netns
	Method             string  `json:"method,omitempty"`                // only with Config.Method
	WireBytes          int64   `json:"wire_bytes,omitempty"`            // what travels for a model; only with Config.Method
	Efficiency         float64 `json:"efficiency"`
	CheckedAgainst     string  `json:"checked_against"` // what each model that a peer read was held to
}

// ParseSize reads a size such as 100MiB, 1GiB, 64MB or a number of bytes, and rounds it down to whole float32 values.
func ParseSize(s string) (int64, error) {
	parse := units.FromHumanSize
	if strings.HasSuffix(s, "iB") {
		parse = units.RAMInBytes // counts in 1024s whatever the unit is
	}
	if n, err := parse(s); err == nil && n >= 4 && n <= maxSize {
		return n / 4 * 4, nil
	}
	return 0, exit.New(exit.Usage, "write it like 100MiB; at least 4 bytes, at most 64GiB", "size %q is not valid", s)
}

// Merge brings up a swarm, plays a program at every SL, and times rounds. A round whose model is not what the peers' offers
// make is an error. It blocks; nothing is left of the swarm then.
func Merge(ctx context.Context, cfg Config) (Result, error) {
	if cfg.Peers < 1 || cfg.Peers > maxPeers || cfg.SNs < 1 || cfg.SNs > maxSNs || cfg.Rounds < 1 || cfg.Rounds > maxRounds {
		return Result{}, exit.New(exit.Usage, "", "--peers must be 1 to %d, --sns 1 to %d, --rounds 1 to %d", maxPeers, maxSNs, maxRounds)
	}
	m, err := method(cfg)
	if err != nil {
		return Result{}, err
	}
	res := Result{Peers: cfg.Peers, Bytes: cfg.Size, Rounds: cfg.Rounds, LinkBytesPerSecond: float64(cfg.Link) / 8}
	if cfg.Method != "" {
		res.Method, res.WireBytes = m.String(), wireBytes(m, cfg.Size)
	}
	l, err := merge.NewLayout(layers(cfg.Size))
	if err != nil {
		return Result{}, err
	}
	r := newReference(m, l)
	res.CheckedAgainst = r.against()
	err = rounds(ctx, cfg, r, &res)
	return res, err
}

// method is how models are merged.
func method(cfg Config) (*merge.Method, error) {
	m, err := merge.ParseMethod(cmp.Or(cfg.Method, "mean"))
	if err != nil {
		return nil, exit.New(exit.Usage, "write a name, or a name with parameters as in mean(wire=bfloat16); docs/reference/methods.md explains all", "--method: %v", err)
	}
	if least := m.LeastContributors(); cfg.Peers < least {
		return nil, exit.New(exit.Usage, fmt.Sprintf("give --peers of at least %d", least), "--method: %s needs %d peers", m, least)
	}
	return m, nil
}

// wireBytes is what travels for a model of float32 elements that is not the first of its contract.
func wireBytes(m *merge.Method, size int64) int64 {
	if m.Wire() != 0 {
		return size / 2
	}
	return size
}

// modelSeconds is what a round would take if only its bytes counted: those of all peers at the speed of TLS, which they share,
// or those of one peer on its own link.
func (r *Result) modelSeconds(tls float64) float64 {
	n := float64(r.Peers)
	each := 2 * float64(cmp.Or(r.WireBytes, r.Bytes)) * (n - 1) / n
	if r.LinkBytesPerSecond > 0 {
		return each / r.LinkBytesPerSecond
	}
	return n * each / tls
}

// judge fills what follows from the times of the rounds and the speed of TLS around them.
func (r *Result) judge(took []float64, y *yardstick) {
	ratios := make([]float64, len(took))
	for i, t := range took {
		ratios[i] = r.modelSeconds(y.at(i)) / t
	}
	r.RoundMedian, r.RoundP95 = quantile(took, 0.5), quantile(took, 0.95)
	r.TLSBytesPerSecond = quantile(y.speeds, 0.5)
	r.ModelSeconds = r.modelSeconds(r.TLSBytesPerSecond)
	r.Efficiency = quantile(ratios, 0.5)
}

// rounds runs the swarm and fills in what it measures.
func rounds(ctx context.Context, cfg Config, r *reference, res *Result) (err error) {
	config := cluster.Config{Swarmd: cfg.Swarmd, SNs: cfg.SNs, Environ: cfg.Environ}
	var w *network
	if cfg.Netns {
		var err2 error
		if w, err2 = cable(cfg.Link); err2 != nil {
			return err2
		}
		defer func() { err = w.close(err) }()
		config.Place = w.place
	}
	c, err := cluster.New(config)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := c.Start(ctx); err != nil {
		return err
	}
	if w != nil {
		res.Congestion = w.congestion
		if note := w.note(); note != "" {
			cfg.Note(note)
		}
	}
	// Whatever daemon ends from here on ends the bench: waiting for its peer would last for ever.
	watching := make(chan struct{})
	defer func() {
		cancel(nil)
		<-watching
	}()
	go func() {
		defer close(watching)
		select {
		case e := <-c.Exits():
			cancel(cluster.Failure(e))
		case <-ctx.Done():
		}
	}()
	peers, err := enrol(ctx, c, cfg)
	defer func() {
		for _, p := range peers {
			_ = p.session.Release()
		}
	}()
	if err == nil {
		err = measure(ctx, c, cfg, &programs{peers: peers, reference: r}, res)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// enrol starts the SLs and opens a session at each.
func enrol(ctx context.Context, c *cluster.Cluster, cfg Config) ([]*peer, error) {
	procs := make([]*cluster.Proc, cfg.Peers)
	for i := range procs {
		var err error
		if procs[i], err = c.StartSL(cluster.SLSpec{Index: i, Expected: cfg.Peers}); err != nil {
			return nil, err
		}
	}
	var peers []*peer
	for i, p := range procs {
		dir, err := c.AwaitBridge(ctx, i, p)
		if err != nil {
			return peers, err
		}
		s, err := program.Open(ctx, dir, program.OpenOptions{
			Contract: "bench", MinPeers: cfg.Peers, SyncFrequency: 1, CheckinMode: "snapshot", Weight: weightOf(i), Method: cmp.Or(cfg.Method, "mean"),
			Tensors: tensors(cfg.Size), Client: "swarmctl bench", Framework: "numpy",
		})
		if err != nil {
			return peers, fmt.Errorf("open session at %s: %w", cluster.SLName(i), err)
		}
		peers = append(peers, &peer{bridge: dir, session: s})
	}
	return peers, nil
}

// layers cuts the model into tensors of the size of a large layer, so that no single one exceeds what layouts allow.
func layers(size int64) []merge.Tensor {
	const most = 64 << 20 / 4
	var out []merge.Tensor
	for left := size / 4; left > 0; left -= most {
		out = append(out, merge.Tensor{Name: "layer." + strconv.Itoa(len(out)), DType: merge.Float32, Shape: []int64{min(left, most)}})
	}
	return out
}

// tensors are the layers as a program declares them.
func tensors(size int64) []wire.Tensor {
	var out []wire.Tensor
	for _, t := range layers(size) {
		out = append(out, wire.Tensor{Name: t.Name, DType: t.DType.String(), Shape: t.Shape})
	}
	return out
}

// measure runs one round to warm up and cfg.Rounds that count.
func measure(ctx context.Context, c *cluster.Cluster, cfg Config, p *programs, res *Result) error {
	cfg.Note("warming up")
	if _, err := p.round(ctx); err != nil {
		return err
	}
	procs := c.Procs()
	watch := &sampler{procs: procs}
	sampling, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch.run(sampling)
	}()
	defer func() {
		stop()
		<-done
	}()
	sent, err := sentBytes(ctx, p.peers)
	if err != nil {
		return err
	}
	cpu, err := cpuSeconds(procs)
	if err != nil {
		return err
	}
	took, y, err := timeRounds(ctx, cfg, p)
	if err != nil {
		return err
	}
	sentAfter, err := sentBytes(ctx, p.peers)
	if err != nil {
		return err
	}
	cpuAfter, err := cpuSeconds(procs)
	if err != nil {
		return err
	}
	stop()
	<-done
	res.judge(took, y)
	res.SentPerPeer = float64(sentAfter-sent) / float64(cfg.Rounds) / float64(cfg.Peers)
	res.CPUSeconds = (cpuAfter - cpu) / float64(cfg.Rounds)
	m := watch.result()
	res.PeakRSS, res.PeakRSSAnon = m.peak, m.anon
	return nil
}

// timeRounds runs the rounds that count, with measurements of TLS around them, and returns how many seconds each took.
func timeRounds(ctx context.Context, cfg Config, p *programs) (took []float64, _ *yardstick, _ error) {
	y := &yardstick{speed: TLSSpeed}
	if err := y.mark(ctx, 0, true); err != nil {
		return nil, nil, err
	}
	for i := range cfg.Rounds {
		if err := wait(ctx, cfg.Pause); err != nil {
			return nil, nil, err
		}
		d, err := p.round(ctx)
		if err != nil {
			return nil, nil, err
		}
		took = append(took, d.Seconds())
		cfg.Note(fmt.Sprintf("round %d of %d: %.3f s", i+1, cfg.Rounds, d.Seconds()))
		if err := y.mark(ctx, i+1, i+1 == cfg.Rounds); err != nil {
			return nil, nil, err
		}
	}
	return took, y, nil
}

// wait blocks for d or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sentBytes is the sum of what all SLs have sent in merge streams so far.
func sentBytes(ctx context.Context, peers []*peer) (int64, error) {
	var sum int64
	for i, p := range peers {
		n, err := mergeSent(ctx, filepath.Join(p.bridge, wire.SocketName))
		if err != nil {
			return 0, fmt.Errorf("ask %s for its bytes: %w", cluster.SLName(i), err)
		}
		sum += n
	}
	return sum, nil
}

// mergeSent asks a bridge's status.
func mergeSent(ctx context.Context, socket string) (int64, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bridge"+wire.PathStatus, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	var status struct {
		Sent *int64 `json:"merge_sent_bytes"`
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return 0, fmt.Errorf("decode status: %w", err)
	}
	if status.Sent == nil {
		return 0, errors.New("status has no merge_sent_bytes")
	}
	return *status.Sent, nil
}

// quantile is the q-quantile of values by linear interpolation; values must not be empty.
func quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 == len(v) {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
