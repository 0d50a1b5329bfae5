package swci_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/merge"
)

// ListModels implements fake.
func (*fakeAPI) ListModels(_ context.Context, name string) (*swarmv1.ListModelsResponse, error) {
	if name != "c" {
		return &swarmv1.ListModelsResponse{Run: 1, Export: true, Note: "no round was committed yet"}, nil
	}
	return &swarmv1.ListModelsResponse{Run: 1, Models: []*swarmv1.Model{
		{Round: 4, Digest: "0123", Final: true, CommittedUnixMs: 9_000, Holders: []*swarmv1.Session{{Node: "sl-0"}, {Node: "sl-1\x1b[2J"}}},
		{Round: 3, Digest: "4567", Holders: []*swarmv1.Session{{Node: "sl-0"}}},
	}}, nil
}

func TestListModels(t *testing.T) {
	got, err := run(t, "--sn=10.0.0.1:30304", "list", "models", "c")
	want := `ROUND  DIGEST  FINAL  COMMITTED  HELD BY
4      0123    yes    2s ago     sl-0, sl-1
3      4567    no     -          sl-0
`
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err = run(t, "--sn=10.0.0.1:30304", "list", "models", "-o", "json"); err != nil || !strings.Contains(got, `"note": "no round was committed yet"`) {
		t.Errorf("%v\n%s", err, got)
	}
}

// holders are SLs that hold one model, and the swarm that lists them.
type holders struct {
	fakeAPI
	list    *swarmv1.ListModelsResponse
	model   []byte
	session func(out io.Writer) *swci.Session
}

func (h *holders) ListModels(context.Context, string) (*swarmv1.ListModelsResponse, error) {
	return h.list, nil
}

func (h *holders) GetContractStatus(context.Context, string) (*swarmv1.GetContractStatusResponse, error) {
	m := h.list.GetModels()[0]
	return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{
		Name: "c", Run: 1, Committed: &swarmv1.CommittedRound{Round: m.GetRound(), Digest: m.GetDigest()},
	}}, nil
}

// mixed is a model of types whose sizes differ, so that there is padding, over more than one leaf.
func mixed(t *testing.T) (*merge.Layout, []byte, string) {
	t.Helper()
	l, err := merge.NewLayout([]merge.Tensor{
		{Name: "flag \"a\"", DType: merge.Bool, Shape: []int64{3}},
		{Name: "none", DType: merge.Float32, Shape: []int64{0, 5}},
		{Name: "w", DType: merge.Float64, Shape: []int64{300, 300}},
		{Name: "scalar", DType: merge.BFloat16},
		{Name: "count", DType: merge.Int64, Shape: []int64{2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, l.Bytes())
	for i := range l.Len() {
		x := l.Tensor(i)
		for k := range x.Elements() * int64(x.DType.Size()) {
			b[l.Offset(i)+k] = byte(k + int64(i))
		}
	}
	var leaves []merge.Digest
	for i := range l.Leaves() {
		at := l.LeafOffset(i)
		leaves = append(leaves, merge.Sum(b[at:at+int64(l.LeafLen(i))]))
	}
	return l, b, merge.Combine(leaves).String()
}

// breaking gives out so many bytes and fails.
type breaking struct{ r io.Reader }

func (b breaking) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("power cut")
	}
	return n, err
}

func (breaking) Close() error { return nil }

// newHolders starts two SLs: the first one breaks off in the middle of the model.
func newHolders(t *testing.T) (*holders, func(args ...string) (string, error)) {
	t.Helper()
	const swarmID = "s"
	layout, model, digest := mixed(t)
	swarm := p2ptest.New(t)
	h := &holders{model: model, list: &swarmv1.ListModelsResponse{
		Run: 1, Export: true, Layout: layout.Canonical(), Method: "krum(f=1)", Models: []*swarmv1.Model{{Round: 4, Digest: digest, Final: true}},
	}}
	for i := range 2 {
		host := swarm.Host(identity.RoleSL, swarmID)
		open := func(_ context.Context, _ p2p.Peer, req fetch.Request) (io.ReadCloser, int64, error) {
			if req.Digest != digest || req.Kind != "model" || req.Contract != "c" || req.State != "" {
				return nil, 0, fmt.Errorf("asked for %+v", req)
			}
			rest := h.model[req.Offset:]
			if i == 0 && req.Offset == 0 {
				return breaking{bytes.NewReader(rest[:len(rest)/2])}, int64(len(rest)), nil
			}
			return io.NopCloser(bytes.NewReader(rest)), int64(len(rest)), nil
		}
		host.Handle(fetch.Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSWCI}}, func(ctx context.Context, s *p2p.Stream) {
			_ = fetch.Answer(ctx, s, open) // it ends too early
		})
		at := p2ptest.AddrOf(t, host)
		source := swarm.Source("sl", "")
		h.list.Models[0].Holders = append(h.list.Models[0].Holders, &swarmv1.Session{
			Node: fmt.Sprintf("sl-%d", i), PeerId: at.PeerID.String(), Host: at.Host, FsPort: uint32(at.Port), SpiffeId: source.ID().String(), Live: true,
		})
	}
	state := t.TempDir()
	h.session = func(out io.Writer) *swci.Session {
		return &swci.Session{
			Env: swci.Env{
				Stdin: strings.NewReader(""), Stdout: out, Stderr: io.Discard, Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
				Getenv: func(k string) string {
					return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
				},
			},
			Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
				return answering(t, h), func() {}, nil
			},
			Identify: func(context.Context, swci.Context) (identity.Provider, identity.Domains, error) {
				return swarm.Source("swci", ""), swarm.Domains, nil
			},
		}
	}
	return h, func(args ...string) (string, error) {
		var out bytes.Buffer
		err := swci.Execute(t.Context(), args, h.session(&out))
		return out.String(), err
	}
}

// TestPagesFetchModels: a page is given the very file, of the size that is said first, and is told in words what goes wrong before it begins.
func TestPagesFetchModels(t *testing.T) {
	h, swarmctl := newHolders(t)
	digest := h.list.GetModels()[0].GetDigest()
	file := filepath.Join(t.TempDir(), "m.safetensors")
	if out, err := swarmctl("get", "model", "c", "--sn", "10.0.0.1", "--out", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	named, size := "", int64(0)
	fetch := func(of dashboard.ModelOf) error {
		got.Reset()
		named = ""
		return swci.FetchForPage(t.Context(), h.session(io.Discard), answering(t, h), of, func(name string, n int64) io.Writer {
			named, size = name, n
			return &got
		})
	}
	of := dashboard.ModelOf{Contract: "c", Round: 4, Digest: digest}
	if err := fetch(of); err != nil || named != "c-round-4.safetensors" || size != int64(len(want)) || !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("%v: %s of %d bytes, %d came of %d", err, named, size, got.Len(), len(want))
	}
	for name, bad := range map[string]dashboard.ModelOf{
		"another round": {Contract: "c", Round: 3, Digest: digest}, "another digest": {Contract: "c", Round: 4, Digest: strings.Repeat("0", 64)}, "no digest": {Contract: "c", Round: 4},
	} {
		if err := fetch(bad); err == nil || named != "" || exit.Hint(err) == "" {
			t.Errorf("%s: %v, begun as %q", name, err, named)
		}
	}
	h.list.Export = false
	if err := fetch(of); exit.Code(err) != exit.Denied || named != "" {
		t.Errorf("without the contract's leave: %v", err)
	}
	h.list.Export = true
	h.model = bytes.Clone(h.model)
	h.model[len(h.model)-1]++
	if err := fetch(of); err == nil || !strings.Contains(err.Error(), "committed is") {
		t.Errorf("of another model: %v", err)
	}
	for _, x := range h.list.GetModels()[0].GetHolders() {
		x.FsPort = 1 // nobody is there
	}
	if err := fetch(of); err == nil || named != "" {
		t.Errorf("without a holder: %v, begun as %q", err, named)
	}
}

// TestGetAndVerifyModel fetches over real connections, from a holder that breaks off and one that goes on, and finds every
// change of the file.
func TestGetAndVerifyModel(t *testing.T) {
	h, swarmctl := newHolders(t)
	digest := h.list.GetModels()[0].GetDigest()
	file := filepath.Join(t.TempDir(), "m.safetensors")
	out, err := swarmctl("get", "model", "c", "--sn", "10.0.0.1", "--out", file)
	if err != nil || !strings.Contains(out, "round 4 from sl-1, digest "+digest) {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := swarmctl("get", "model", "c", "--sn", "10.0.0.1", "--out", file); exit.Code(err) != exit.Conflict {
		t.Errorf("wrote over a file: %v", err)
	}
	if _, err := swarmctl("get", "model", "c", "--sn", "10.0.0.1", "--out", file, "--force", "--digest", digest[:8], "--round", "4"); err != nil {
		t.Errorf("--force: %v", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkSafetensors(t, b, h.model)
	if out, err := swarmctl("verify", "model", file); err != nil || !strings.Contains(out, "not compared") {
		t.Errorf("alone: %v\n%s", err, out)
	}
	if out, err := swarmctl("verify", "model", file, "--sn", "10.0.0.1"); err != nil || !strings.Contains(out, "the SN says so") {
		t.Errorf("with an SN: %v\n%s", err, out)
	}
	head := 8 + int(binary.LittleEndian.Uint64(b))
	for name, change := range map[string]func([]byte) []byte{
		"a tensor":        func(b []byte) []byte { b[head+1]++; return b },
		"the last byte":   func(b []byte) []byte { b[len(b)-1]++; return b },
		"cut off":         func(b []byte) []byte { return b[:len(b)-1] },
		"something added": func(b []byte) []byte { return append(b, 0) },
		"the digest":      func(b []byte) []byte { return bytes.Replace(b, []byte(digest), []byte(strings.Repeat("0", 64)), 1) },
		"a shape": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"shape":[300,300]`), []byte(`"shape":[900,100]`), 1)
		},
		"the header":   func(b []byte) []byte { b[8] = 'x'; return b },
		"its length":   func(b []byte) []byte { b[7] = 0xff; return b },
		"nothing left": func([]byte) []byte { return nil },
	} {
		changed := filepath.Join(t.TempDir(), "m.safetensors")
		if err := os.WriteFile(changed, change(bytes.Clone(b)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := swarmctl("verify", "model", changed); exit.Code(err) != exit.Failed || exit.Hint(err) == "" || strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// checkSafetensors reads the file as another program would.
func checkSafetensors(t *testing.T, b, model []byte) {
	t.Helper()
	head := 8 + int(binary.LittleEndian.Uint64(b))
	var entries map[string]struct {
		DType   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int   `json:"data_offsets"`
	}
	var meta struct {
		Texts map[string]string `json:"__metadata__"`
	}
	if err := errors.Join(json.Unmarshal(b[8:head], &meta), json.Unmarshal(bytes.Replace(b[8:head], []byte("__metadata__"), []byte("-"), 1), &entries)); err != nil && len(entries) == 0 {
		t.Fatal(err)
	}
	if head%8 != 0 || meta.Texts["contract"] != "c" || meta.Texts["round"] != "4" || meta.Texts["method"] != "krum(f=1)" {
		t.Errorf("header ends at %d, metadata %v", head, meta.Texts)
	}
	w := entries["w"]
	if w.DType != "F64" || len(w.Shape) != 2 || w.Offsets[0] != 3 || !bytes.Equal(b[head+w.Offsets[0]:head+w.Offsets[1]], model[8:8+720_000]) {
		t.Errorf("w is %+v", w)
	}
	if s := entries["scalar"]; s.DType != "BF16" || s.Shape == nil || len(s.Shape) != 0 {
		t.Errorf("scalar is %+v", s)
	}
}

func TestGetModelIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *holders)
		args   []string
		code   int
		says   string
	}{
		{"by the rules", func(h *holders) { h.list.Export = false }, nil, exit.Denied, "do not let models out"},
		{"nobody holds it", func(h *holders) { h.list.Models, h.list.Note = nil, "the final model (round 4) is held by no node" }, nil, exit.NotFound, "held by no node"},
		{"another round", func(*holders) {}, []string{"--round", "3"}, exit.NotFound, "no node that runs holds the model of round 3 of contract"},
		{"what comes is something else", func(h *holders) { h.model[100]++ }, nil, exit.Failed, "what came has digest"},
		{"another's identity", func(h *holders) {
			for _, x := range h.list.Models[0].Holders {
				x.SpiffeId += "-x"
			}
		}, nil, exit.Failed, "shows the SPIFFE ID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, swarmctl := newHolders(t)
			tt.change(h)
			dir := t.TempDir()
			_, err := swarmctl(append([]string{"get", "model", "c", "--sn", "10.0.0.1", "--out", filepath.Join(dir, "m")}, tt.args...)...)
			if exit.Code(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("code %d: %v", exit.Code(err), err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
