package bridge_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/merge"
)

// engine is a swarm of one: a sync commits the local weights plus one in each byte.
type engine struct {
	server *bridge.Server

	mu      sync.Mutex
	slots   *bridge.Slots
	round   uint64
	reports []wire.ReportRequest
	aborted string
	holds   chan struct{} // if set, Sync waits for it
	pending int           // how often Sync says pending first
	gone    chan struct{} // if set, closed when a Sync's context ends
}

func (e *engine) Open(_ context.Context, req wire.OpenRequest, layout *merge.Layout) (bridge.OpenResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if req.Contract == "refused" {
		return bridge.OpenResult{}, &bridge.Error{Code: "LAYOUT_MISMATCH", Message: "other layout", Hint: "use the same model"}
	}
	if req.Contract == "broken" {
		return bridge.OpenResult{}, errors.New("disk on fire")
	}
	if e.slots != nil {
		_ = e.slots.Close()
	}
	var err error
	e.slots, err = e.server.CreateSlots(layout.Bytes())
	if err != nil {
		return bridge.OpenResult{}, err
	}
	return bridge.OpenResult{Session: "0123456789abcdef", Local: e.slots.Local().Name(), Peer: "sl-0"}, nil
}

func (e *engine) Sync(ctx context.Context, req wire.SyncRequest) (wire.SyncResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending > 0 {
		e.pending--
		return wire.SyncResponse{}, &bridge.PendingError{Waiting: "1 more peer"}
	}
	if holds := e.holds; holds != nil {
		e.mu.Unlock()
		select {
		case <-holds:
		case <-ctx.Done():
		}
		e.mu.Lock()
		if ctx.Err() != nil {
			if e.gone != nil {
				close(e.gone)
				e.gone = nil
			}
			return wire.SyncResponse{}, ctx.Err()
		}
	}
	return e.mergeLocked(req.Seq)
}

func (e *engine) mergeLocked(seq uint64) (wire.SyncResponse, error) {
	b := make([]byte, e.slots.Local().Size())
	if _, err := e.slots.Local().ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return wire.SyncResponse{}, err
	}
	for i := range b {
		b[i]++
	}
	if _, err := e.slots.Merging().WriteAt(b, 0); err != nil {
		return wire.SyncResponse{}, err
	}
	e.round = seq
	e.slots.Merged("")
	return wire.SyncResponse{Round: seq, Slot: e.slots.Commit(), Interval: 16, Contributed: true, Participants: []string{"sl-0"}}, nil
}

func (e *engine) Report(_ context.Context, req wire.ReportRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reports = append(e.reports, req)
	return nil
}

func (e *engine) Close(_ context.Context, req wire.CloseRequest) (wire.SyncResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	res, err := e.mergeLocked(req.Seq + 1)
	res.TrainingOver = true
	return res, err
}

func (e *engine) Abort(_ context.Context, req wire.AbortRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.aborted = req.Reason
	return nil
}

func (e *engine) status() map[string]any {
	return map[string]any{"peer": "sl-0", "waiting": "2 more peers", "merge_sent_bytes": 7}
}

// serve runs a server until the test ends and checks that it leaves nothing behind.
func serve(t *testing.T, poll time.Duration) (*engine, string) {
	t.Helper()
	before := runtime.NumGoroutine()
	e := &engine{}
	dir := filepath.Join(t.TempDir(), "bridge")
	s, err := bridge.NewServer(bridge.Config{
		Dir: dir, SpillDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Handler: e, Status: e.status, LongPoll: poll,
		MaxModel: 1 << 42,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.server = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if e.slots != nil {
			_ = e.slots.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; runtime.NumGoroutine() > before; i++ {
			if i == 2000 {
				buf := make([]byte, 1<<16)
				t.Fatalf("goroutines left behind:\n%s", buf[:runtime.Stack(buf, true)])
			}
			<-tick.C
		}
	})
	return e, dir
}

func httpClient(t *testing.T, dir string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(dir, wire.SocketName))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func post(t *testing.T, c *http.Client, path, body string) (int, map[string]any) {
	t.Helper()
	resp, err := c.Post("http://bridge"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		t.Fatalf("%s answered %s without JSON: %v", path, resp.Status, err)
	}
	return resp.StatusCode, m
}

func reason(m map[string]any) string {
	e, _ := m["error"].(map[string]any)
	r, _ := e["reason"].(string)
	return r
}

const openBody = `{"min_peers":2,"sync_frequency":64,"adaptive":false,"weight":50,"unknown":[1],
	"tensors":[{"name":"a","dtype":"uint8","shape":[3]},{"name":"b","dtype":"float32","shape":[2,2]},{"name":"c","dtype":"float32","shape":[]}]}`

func TestConversation(t *testing.T) {
	e, dir := serve(t, 0)
	e.pending = 2
	c := httpClient(t, dir)
	code, m := post(t, c, "/v1/session", openBody)
	if code != 200 {
		t.Fatalf("open: %d %v", code, m)
	}
	digest, _ := m["layout_digest"].(string)
	delete(m, "layout_digest")
	want := map[string]any{
		"session": "0123456789abcdef", "local": "local", "bytes": 24.0, "offsets": []any{0.0, 4.0, 20.0}, "peer": "sl-0", "api_version": 1.0,
	}
	if diff := cmp.Diff(m, want); diff != "" || len(digest) != 64 {
		t.Errorf("open, digest %q (-got +want):\n%s", digest, diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "local")); err != nil || info.Size() != 24 || info.Mode().Perm() != 0o600 {
		t.Errorf("slot local: %v, %v", info, err)
	}
	local := bytes.Repeat([]byte{41}, 24)
	if err := os.WriteFile(filepath.Join(dir, "local"), local, 0); err != nil {
		t.Fatal(err)
	}
	const sync = `{"session":"0123456789abcdef","seq":1,"weight":50}`
	for range 2 {
		if _, m = post(t, c, "/v1/sync", sync); m["pending"] != true || m["waiting"] != "1 more peer" {
			t.Errorf("got %v, want pending", m)
		}
	}
	_, m = post(t, c, "/v1/sync", sync)
	model, err := os.ReadFile(filepath.Join(dir, "merged-0"))
	if sum := fmt.Sprintf("%x", sha256.Sum256(model)); err != nil || m["sha256"] != sum {
		t.Errorf("sha256 is %v, want %s, %v", m["sha256"], sum, err)
	}
	delete(m, "sha256")
	want = map[string]any{
		"pending": false, "round": 1.0, "slot": "merged-0", "interval": 16.0, "training_over": false, "contributed": true,
		"skipped": false, "digest": "", "participants": []any{"sl-0"}, "warnings": []any{},
	}
	if diff := cmp.Diff(m, want); diff != "" {
		t.Errorf("sync (-got +want):\n%s", diff)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "merged-0")); !bytes.Equal(b, bytes.Repeat([]byte{42}, 24)) {
		t.Errorf("merged-0 holds %v", b)
	}
	if _, m = post(t, c, "/v1/sync", `{"session":"0123456789abcdef","seq":2}`); m["slot"] != "merged-1" {
		t.Errorf("second sync: %v", m)
	}
	post(t, c, "/v1/report", `{"session":"0123456789abcdef","round":1,"loss":0.5,"metric":null,"epochs_done":1,"total_epochs":4}`)
	post(t, c, "/v1/report", `{"session":"0123456789abcdef","round":1,"loss":0.5,"metric":0.7,"metric_name":"Accuracy","epochs_done":1,"total_epochs":4,"of_a_later_version":1}`)
	if r := e.reports[0]; *r.Loss != 0.5 || r.Metric != nil || r.EpochsDone != 1 || r.MetricName != "" || e.reports[1].MetricName != "Accuracy" {
		t.Errorf("reports: %+v", e.reports)
	}
	if _, m = post(t, c, "/v1/close", `{"session":"0123456789abcdef","seq":2,"mode":"snapshot"}`); m["training_over"] != true || m["slot"] != "merged-0" {
		t.Errorf("close: %v", m)
	}
	resp, err := c.Get("http://bridge/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), `"merge_sent_bytes":7`) {
		t.Errorf("status: %s", b)
	}
}

func TestProgram(t *testing.T) {
	e, dir := serve(t, 10*time.Millisecond)
	e.holds = make(chan struct{})
	s, err := program.Open(t.Context(), dir, program.OpenOptions{
		MinPeers: 1, SyncFrequency: 1, Tensors: []wire.Tensor{{Name: "w", DType: "uint8", Shape: []int64{5000}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !e.server.Connected() {
		t.Error("the program does not count as connected")
	}
	var waiting string
	s.OnWaiting = func(w string) { // the long poll ended: now let it go on
		e.mu.Lock()
		defer e.mu.Unlock()
		if waiting = w; e.holds != nil {
			close(e.holds)
			e.holds = nil
		}
	}
	if err := s.WriteLocal(4990, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteLocal(4991, []byte("0123456789")); err == nil {
		t.Error("wrote beyond the end")
	}
	res, err := s.Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if waiting != "2 more peers" || res.Round != 1 || string(s.Committed()[4990:]) != "123456789:" {
		t.Errorf("waiting %q, result %+v, model …%q", waiting, res, s.Committed()[4990:])
	}
	loss := 0.25
	if err := s.Report(t.Context(), wire.ReportRequest{Round: 1, Loss: &loss}); err != nil {
		t.Error(err)
	}
	copy(s.Local(), "zzz")
	if res, err = s.Close(t.Context()); err != nil || !res.TrainingOver || string(s.Committed()[:3]) != "{{{" {
		t.Errorf("close: %+v, %v", res, err)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
}

func TestClientThatHangsUpEndsTheCall(t *testing.T) {
	e, dir := serve(t, 0)
	e.holds, e.gone = make(chan struct{}), make(chan struct{})
	gone := e.gone
	c := httpClient(t, dir)
	post(t, c, "/v1/session", openBody)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://bridge/v1/sync", strings.NewReader(`{"session":"x","seq":1}`))
	if resp, err := c.Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("the call returned")
	}
	<-gone
}

func TestStoppingServerAnswersBlockedCalls(t *testing.T) {
	e, dir := serve(t, 0)
	e.holds = make(chan struct{})
	c := httpClient(t, dir)
	post(t, c, "/v1/session", openBody)
	// serve's cleanup stops the server while this call blocks; it must not hang or leak.
	go func() {
		resp, err := c.Post("http://bridge/v1/sync", "application/json", strings.NewReader(`{"session":"x","seq":1}`))
		if err == nil {
			resp.Body.Close()
		}
	}()
}

func TestRefusals(t *testing.T) {
	_, dir := serve(t, 0)
	c := httpClient(t, dir)
	for name, tt := range map[string]struct {
		path, body string
		code       int
		reason     string
		message    string
	}{
		"not json":       {"/v1/session", `{`, 400, "BAD_REQUEST", "not JSON"},
		"empty":          {"/v1/sync", ``, 400, "BAD_REQUEST", "not JSON"},
		"array":          {"/v1/sync", `[]`, 400, "BAD_REQUEST", "want an object"},
		"wrong type":     {"/v1/session", `{"min_peers":"two"}`, 400, "BAD_REQUEST", "field min_peers: got string, want int"},
		"no peers":       {"/v1/session", `{"tensors":[]}`, 400, "BAD_REQUEST", "field min_peers"},
		"weight":         {"/v1/session", `{"min_peers":1,"weight":101}`, 400, "BAD_REQUEST", "field weight: 101"},
		"close mode":     {"/v1/close", `{"session":"0123456789abcdef","seq":1,"mode":"x"}`, 400, "BAD_REQUEST", "field mode"},
		"mode":           {"/v1/session", `{"min_peers":1,"checkin_mode":"x"}`, 400, "BAD_REQUEST", "field checkin_mode"},
		"contract":       {"/v1/session", `{"min_peers":1,"contract":"a/b"}`, 400, "BAD_REQUEST", "field contract"},
		"no tensors":     {"/v1/session", `{"min_peers":1}`, 400, "BAD_REQUEST", "0 tensors"},
		"complex":        {"/v1/session", `{"min_peers":1,"tensors":[{"name":"z","dtype":"complex64","shape":[]}]}`, 400, "BAD_REQUEST", `"z"`},
		"huge":           {"/v1/session", `{"min_peers":1,"tensors":[{"name":"z","dtype":"uint8","shape":[1099511627776,9]}]}`, 400, "BAD_REQUEST", `"z"`},
		"seq":            {"/v1/sync", `{"session":"s","seq":0}`, 400, "BAD_REQUEST", "field seq"},
		"no session":     {"/v1/report", `{}`, 400, "BAD_REQUEST", "field session"},
		"oversize":       {"/v1/abort", `{"reason":"` + strings.Repeat("x", 70_000) + `"}`, 413, "TOO_LARGE", "65536"},
		"oversize open":  {"/v1/session", `{"client":"` + strings.Repeat("x", 9<<20) + `"}`, 413, "TOO_LARGE", "8388608"},
		"route":          {"/v2/session", `{}`, 404, "NOT_FOUND", "no such route"},
		"method":         {"/v1/status", `{}`, 405, "METHOD_NOT_ALLOWED", "POST"},
		"handler":        {"/v1/session", `{"contract":"refused","min_peers":1,"tensors":[{"name":"z","dtype":"bool"}]}`, 409, "LAYOUT_MISMATCH", "other layout"},
		"handler broken": {"/v1/session", `{"contract":"broken","min_peers":1,"tensors":[{"name":"z","dtype":"bool"}]}`, 500, "INTERNAL", "disk on fire"},
		"no space":       {"/v1/session", `{"min_peers":1,"tensors":[{"name":"z","dtype":"float64","shape":[549755813888]}]}`, 507, "NO_SPACE", "no space"},
		"too large":      {"/v1/session", `{"min_peers":1,"tensors":[{"name":"z","dtype":"float64","shape":[549755813889]}]}`, 413, "MODEL_TOO_LARGE", "this node takes 4398046511104 at most"},
	} {
		t.Run(name, func(t *testing.T) {
			code, m := post(t, c, tt.path, tt.body)
			b, _ := json.Marshal(m)
			if code != tt.code || reason(m) != tt.reason || !strings.Contains(strings.ReplaceAll(string(b), `\"`, `"`), tt.message) {
				t.Errorf("got %d %s, want %d %s with %q", code, b, tt.code, tt.reason, tt.message)
			}
		})
	}
}

func TestTruncatedLocalSlot(t *testing.T) {
	_, dir := serve(t, 0)
	c := httpClient(t, dir)
	post(t, c, "/v1/session", openBody)
	if err := os.Truncate(filepath.Join(dir, "local"), 5); err != nil {
		t.Fatal(err)
	}
	code, m := post(t, c, "/v1/sync", `{"session":"s","seq":1}`)
	b, _ := json.Marshal(m)
	if code != 409 || reason(m) != "SLOT_SIZE" || !strings.Contains(string(b), "weight file local is 5 bytes, want 24") {
		t.Errorf("got %d %s", code, b)
	}
}

func TestSecondOpen(t *testing.T) {
	_, dir := serve(t, 0)
	first, second := httpClient(t, dir), httpClient(t, dir)
	post(t, first, "/v1/session", openBody)
	if code, m := post(t, second, "/v1/session", openBody); code != 409 || reason(m) != "SESSION_OPEN" {
		t.Errorf("a second program: %d %v", code, m)
	}
	if code, m := post(t, first, "/v1/session", openBody); code != 200 {
		t.Errorf("the same program anew: %d %v", code, m)
	}
	first.CloseIdleConnections()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	other := strings.Replace(openBody, "uint8", "int8", 1)
	for i := 0; ; i++ { // the server notices the end of the connection soon
		code, m := post(t, second, "/v1/session", other)
		b, _ := json.Marshal(m)
		if code == 409 && strings.Contains(string(b), "another layout") {
			break
		}
		if i == 2000 {
			t.Fatalf("the program is gone, but its session is not: %d %s", code, b)
		}
		<-tick.C
	}
	if code, m := post(t, second, "/v1/session", openBody); code != 200 {
		t.Errorf("restarted program: %d %v", code, m)
	}
	post(t, second, "/v1/abort", `{"session":"0123456789abcdef","reason":"done"}`)
	if code, m := post(t, first, "/v1/session", other); code != 200 {
		t.Errorf("after abort: %d %v", code, m)
	}
}

func TestDirectory(t *testing.T) {
	e := &engine{}
	config := bridge.Config{Dir: "relative", Log: slog.New(slog.DiscardHandler), Handler: e}
	if _, err := bridge.NewServer(config); err == nil || !strings.Contains(err.Error(), "--bridge-dir") {
		t.Errorf("relative directory: %v", err)
	}
	config.Dir = "/" + strings.Repeat("x", 100)
	if _, err := bridge.NewServer(config); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("long directory: %v", err)
	}
	_, dir := serve(t, 0)
	config.Dir = dir
	s, err := bridge.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another daemon uses it") {
		t.Errorf("second daemon: %v", err)
	}
	// What a killed daemon left is replaced, what is not ours stays.
	config.Dir = t.TempDir()
	for _, name := range []string{wire.SocketName, wire.LocalName, "keep"} {
		if err := os.WriteFile(filepath.Join(config.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = bridge.NewServer(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	info, err := os.Stat(filepath.Join(config.Dir, wire.SocketName))
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	entries, _ := os.ReadDir(config.Dir)
	if len(entries) != 1 || entries[0].Name() != "keep" {
		t.Errorf("left behind: %v", entries)
	}
}
