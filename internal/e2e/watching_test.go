package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/swci/cluster"
)

// relay passes connections on to an address, and counts what it passes.
type relay struct {
	ln       net.Listener
	to       string
	there    atomic.Int64 // bytes to the address
	back     atomic.Int64 // bytes from it
	underway sync.WaitGroup
}

// relay listens at node i's API port for connections to another address, until the test ends.
func (w *swarm) relay(i int, to string) *relay {
	w.T.Helper()
	ln, err := new(net.ListenConfig).Listen(w.T.Context(), "tcp", w.Addr(i)+":30304")
	if err != nil {
		w.T.Fatal(err)
	}
	r := &relay{ln: ln, to: to}
	r.underway.Go(r.serve)
	w.T.Cleanup(func() {
		_ = ln.Close()
		r.underway.Wait()
	})
	return r
}

func (r *relay) serve() {
	for {
		from, err := r.ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		pass := func(dst, src net.Conn, n *atomic.Int64) func() {
			return func() {
				_, _ = io.Copy(counted{dst, n}, src) // whoever ends it ends both
				_ = dst.Close()
				_ = src.Close()
			}
		}
		r.underway.Go(pass(to, from, &r.there))
		r.underway.Go(pass(from, to, &r.back))
	}
}

// counted counts what is written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// openPage is what a browser does that shows a contract's page: it has its stream open, and counts what comes.
type openPage struct {
	read  atomic.Int64 // bytes
	docs  atomic.Int64
	sn    atomic.Value // that is asked, as the stream says
	stop  func()
	ended chan struct{}
}

// contractPage are the documents that the page of contract e2e watches, and how many rounds it asks for: web/src/store.ts.
const contractPage = "/api/stream?watch=approvals,contract/e2e,explain/e2e,history/e2e,swarm&points=600"

// opens lets itself in at the address that a dashboard has printed, until stop.
func opens(t *testing.T, dashboard *e2etest.Proc) *openPage {
	t.Helper()
	dashboard.Sees("dashboard: http")
	address := regexp.MustCompile(`dashboard: (http://[^/]+)(\S+)`).FindStringSubmatch(dashboard.Output())
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	let, err := browser.Get(address[1] + address[2])
	if err != nil {
		t.Fatal(err)
	}
	_ = let.Body.Close()
	_, key, ok := strings.Cut(let.Header.Get("Location"), "#key=")
	if !ok {
		t.Fatalf("%s: %s", address[2], let.Status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address[1]+contractPage, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Swarm-Page", key)
	res, err := browser.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	p := &openPage{ended: make(chan struct{})}
	p.stop = func() { cancel(); <-p.ended }
	go p.follow(res.Body)
	return p
}

func (p *openPage) follow(body io.ReadCloser) {
	defer close(p.ended)
	defer body.Close()
	for in := bufio.NewReader(body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		p.read.Add(int64(len(line)))
		data, _ := strings.CutPrefix(line, "data: ")
		var link struct{ SN, State string }
		if strings.HasPrefix(data, `{"name"`) {
			p.docs.Add(1)
		} else if json.Unmarshal([]byte(data), &link) == nil && link.State != "" {
			p.sn.Store(link.SN)
		}
	}
}

// mergeTime is a round as the programs saw it: when the last one came to it, and when the last one had the merged model; in seconds.
type mergeTime struct{ begin, end float64 }

// merges are the rounds that programs of SLs 1 to n have written down, by their numbers, without those that not all have.
func (w *swarm) merges(n int) map[int]mergeTime {
	w.T.Helper()
	of, had := map[int]mergeTime{}, map[int]int{}
	for i := 1; i <= n; i++ {
		text, err := os.ReadFile(w.Metrics(i))
		if err != nil && !os.IsNotExist(err) {
			w.T.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e struct {
				Event       string
				Round       int
				TS, Seconds float64
			}
			if json.Unmarshal([]byte(line), &e) != nil || e.Event != "merge" { // the last line may be half there
				continue
			}
			m := of[e.Round]
			of[e.Round] = mergeTime{max(m.begin, e.TS-e.Seconds), max(m.end, e.TS)}
			had[e.Round]++
		}
	}
	for round, peers := range had {
		if peers < n {
			delete(of, round)
		}
	}
	return of
}

// rounds waits for so many rounds more of SL 1's program, and returns the last one's number. It asks no node.
func (w *swarm) rounds(more int) int {
	w.T.Helper()
	count := func() int {
		text, _ := os.ReadFile(w.Metrics(1)) // it may not be there yet
		return strings.Count(string(text), `"event": "merge"`) + strings.Count(string(text), `"event":"merge"`)
	}
	want := count() + more
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(15 * time.Minute); count() < want; {
		select {
		case <-tick.C:
		case <-limit:
			w.T.Fatalf("%d of %d rounds", count(), want)
		}
	}
	return count()
}

// spent is what some rounds cost.
type spent struct {
	seconds, rounds                 float64
	sn, sls, board                  float64 // processor seconds
	toBoard, fromBoard, page, parts int64   // bytes out of the SN to the dashboard and back, and to the page; documents
}

func (s spent) minus(t spent) spent {
	return spent{s.seconds - t.seconds, s.rounds - t.rounds, s.sn - t.sn, s.sls - t.sls, s.board - t.board, s.toBoard - t.toBoard, s.fromBoard - t.fromBoard, s.page - t.page, s.parts - t.parts}
}

func (s spent) plus(t spent) spent {
	return spent{s.seconds + t.seconds, s.rounds + t.rounds, s.sn + t.sn, s.sls + t.sls, s.board + t.board, s.toBoard + t.toBoard, s.fromBoard + t.fromBoard, s.page + t.page, s.parts + t.parts}
}

// seconds is the processor time that processes have used so far.
func seconds(t *testing.T, procs ...*e2etest.Proc) (sum float64) {
	t.Helper()
	for _, p := range procs {
		ticks, err := cluster.CPUTicks(p.Cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		sum += float64(ticks) / 100
	}
	return sum
}

// watched is a swarm of one SN, which a dashboard is open of at times.
type watched struct {
	*swarm
	sn    *e2etest.Proc
	sls   []*e2etest.Proc
	relay *relay
}

// dashboard starts one that asks the SN by the relay.
func (w *watched) dashboard() *e2etest.Proc {
	return w.Start(201, "dashboard", "swarmctl", "dashboard", "--listen", w.Addr(201)+":30309", "--sn", w.relay.ln.Addr().String(), "--identity", "embedded="+w.Path("ca"))
}

// phase has rounds made, with a dashboard open or without, and returns what they cost. Those in which it starts don't count.
func (w *watched) phase(rounds, settle int, on bool) spent {
	w.T.Helper()
	var board *e2etest.Proc
	var page *openPage
	if on {
		board = w.dashboard()
		page = opens(w.T, board)
	}
	now := func(round int) spent {
		s := spent{seconds: float64(time.Now().UnixNano()) / 1e9, rounds: float64(round), sn: seconds(w.T, w.sn), sls: seconds(w.T, w.sls...)}
		if on {
			s.board, s.page, s.parts = seconds(w.T, board), page.read.Load(), page.docs.Load()
		}
		s.toBoard, s.fromBoard = w.relay.back.Load(), w.relay.there.Load()
		return s
	}
	before := now(w.rounds(settle))
	out := now(w.rounds(rounds)).minus(before)
	if on {
		if sn := page.sn.Load(); sn != w.relay.ln.Addr().String() {
			w.T.Errorf("the dashboard asks %v, and what it asks is not counted", sn)
		}
		page.stop()
		board.Kill()
	}
	return out
}

// TestCostOfAnOpenDashboardForMinutes prints what a dashboard costs that is open on a contract's page, in turns with the same swarm without: processor time
// of the SN, of SLs' daemons and of the dashboard, and bytes. How much is wanted of none.
func TestCostOfAnOpenDashboardForMinutes(t *testing.T) {
	e2etest.NeedPython(t)
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("compares and judges nothing: SWARM_TEST_LONG=1 or make test-long")
	}
	for nodes, past := range map[int]int{3: 300, 32: 60} { // rounds that the page shows at first
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) { costOfDashboard(t, nodes-1, past) })
	}
}

func costOfDashboard(t *testing.T, sls, past int) {
	t.Helper()
	const pairs, settle, rounds = 3, 3, 12
	w := &watched{swarm: newSwarm(t)}
	w.sn = w.one()
	w.relay = w.swarm.relay(200, w.Addr(1)+":30304")
	w.sls = w.trains(sls, fmt.Sprintf("MIN_PEERS=%d", sls), "BATCHES=100000", "BATCH_SECONDS=1", fmt.Sprintf("HASTE=%d", 2*past), "LOSS=1", "--sn-ip="+w.Addr(1))
	w.rounds(past + settle)
	var off, on spent
	for range pairs {
		off = off.plus(w.phase(rounds, settle, false))
		on = on.plus(w.phase(rounds, settle, true))
	}
	per := func(s spent, x float64) float64 { return 1000 * x / s.rounds }
	t.Logf("1 SN, %d SLs, after %d rounds; %.0f rounds of %.2f s each with a dashboard, and as many of %.2f s without", sls, past, on.rounds, on.seconds/on.rounds, off.seconds/off.rounds)
	t.Logf("processor time per round: SN %.1f ms with, %.1f ms without, times %.2f; SLs %.0f and %.0f ms, times %.2f", per(on, on.sn), per(off, off.sn), on.sn/on.rounds/(off.sn/off.rounds),
		per(on, on.sls), per(off, off.sls), on.sls/on.rounds/(off.sls/off.rounds))
	t.Logf("the dashboard: %.1f ms per round, %.2f %% of a processor", per(on, on.board), 100*on.board/on.seconds)
	t.Logf("with the dashboard times %.3f in all", (on.sn+on.sls+on.board)/on.rounds/((off.sn+off.sls)/off.rounds))
	kib := func(n int64) float64 { return float64(n) / 1024 / on.rounds }
	minute := func(n int64) float64 { return float64(n) / (1 << 20) * 60 / on.seconds }
	t.Logf("bytes per round: SN to dashboard %.1f KiB, back %.1f KiB, to the page %.1f KiB in %.1f documents; a minute %.2f, %.2f, %.2f MiB", kib(on.toBoard), kib(on.fromBoard), kib(on.page), float64(on.parts)/on.rounds,
		minute(on.toBoard), minute(on.fromBoard), minute(on.page))
}

// scrapes asks nodes for their metrics every few seconds, as Prometheus does, until stop.
func scrapes(t *testing.T, every time.Duration, addresses []string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, address := range addresses {
		all.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
				if res, err := http.DefaultClient.Do(req); err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if err == nil && res.StatusCode != http.StatusOK {
						t.Errorf("metrics of %s: %s", address, res.Status)
					}
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// TestCostOfAllWatchersForMinutes prints how long rounds take while metrics are scraped every 5 s, a dashboard is open and a tracker writes to MLflow and
// for TensorBoard, and by how much that is longer than without, in turns in one training. MLflow, which is no part of a swarm, runs all the time and
// gives way to the others. How much is wanted of none.
func TestCostOfAllWatchersForMinutes(t *testing.T) {
	e2etest.NeedPython(t)
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("compares and judges nothing: SWARM_TEST_LONG=1 or make test-long")
	}
	const sls, pairs, settle, rounds = 3, 8, 12, 40
	python := e2etest.Environment(t, "mlflow")
	w := &watched{swarm: newSwarm(t)}
	w.authority()
	w.sn = w.SN(1, "--metrics="+w.metricsAt(1))
	w.sn.Sees(apiMarker)
	w.relay = w.swarm.relay(200, w.Addr(1)+":30304")
	nodes := []string{w.metricsAt(1)}
	for i := 1; i <= sls; i++ {
		nodes = append(nodes, w.metricsAt(10+i))
		w.sls = append(w.sls, w.SL(i, fmt.Sprintf("MIN_PEERS=%d", sls), "BATCHES=100000", "BATCH_SECONDS=0.25", "SIZE=1000000", "LOSS=1", "--sn-ip="+w.Addr(1), "--metrics="+w.metricsAt(10+i), fmt.Sprintf("--expected-peers=%d", sls)))
	}
	server := &mlflow{w: w.swarm, binary: filepath.Join(filepath.Dir(python), "mlflow"), url: "http://" + w.Addr(202) + ":5000"}
	server.start("/usr/bin/nice", "-n", "19")
	phase := func(on bool) (from, to int) {
		w.T.Helper()
		if on {
			board := w.dashboard()
			page := opens(t, board)
			stop := scrapes(t, 5*time.Second, nodes)
			tracker := w.Start(203, "tracker", "swarmctl", "track", "contract", "e2e", "--mlflow", server.url, "--tensorboard", w.Path("tb"), "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))
			defer func() {
				tracker.Kill()
				stop()
				page.stop()
				board.Kill()
			}()
			tracker.Sees("TensorBoard: ")
		}
		from = w.rounds(settle)
		return from, w.rounds(rounds)
	}
	phase(false)
	type turn struct{ from, to int }
	var turns []turn // without and with, one after the other
	for i := range 2*pairs + 1 {
		from, to := phase(i%2 == 1)
		turns = append(turns, turn{from, to})
	}
	merges := w.merges(sls)
	for _, of := range []struct {
		what    string
		seconds func(round int) float64
	}{
		{"merge, from the last program that is ready to the last that has the model", func(round int) float64 { return merges[round].end - merges[round].begin }},
		{"round, from one merged model to the next, of which programs sleep 0.5 s", func(round int) float64 { return merges[round].end - merges[round-1].end }},
	} {
		var medians []float64
		var all [2][]float64
		for i, t := range turns {
			var some []float64
			for round := t.from + 1; round <= t.to; round++ {
				if merges[round].end > 0 && merges[round-1].end > 0 {
					some = append(some, of.seconds(round))
				}
			}
			medians = append(medians, median(some))
			all[i%2] = append(all[i%2], some...)
		}
		var onOff, offOff []float64
		for i := 1; i+1 < len(medians); i += 2 {
			onOff = append(onOff, 2*medians[i]/(medians[i-1]+medians[i+1]))
			offOff = append(offOff, medians[i+1]/medians[i-1])
		}
		t.Logf("%s: %.1f ms with all, %.1f ms without, medians of %d and %d; with ÷ without beside it: median %.3f of %.3f; without ÷ without: median %.3f of %.3f", of.what, 1000*median(all[1]), 1000*median(all[0]), len(all[1]), len(all[0]),
			median(onOff), onOff, median(offOff), offOff)
	}
}
