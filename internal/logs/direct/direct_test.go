package direct_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/direct"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

const (
	swarmID = "swarm-1"
	soon    = 20 * time.Second // that something comes, on a busy machine
)

// printed prints lines, and where it is followed those that come.
type printed struct {
	lines []string
	more  chan string
}

func (p printed) Log(ctx context.Context, w logs.Wanted, emit func(logs.Line) error) error {
	for _, l := range p.lines[max(len(p.lines)-w.Tail, 0):] {
		if err := emit(logs.Line{From: "sl-0", Text: l}); err != nil {
			return err
		}
	}
	for w.Follow {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l := <-p.more:
			if err := emit(logs.Line{Text: l}); err != nil {
				return err
			}
		}
	}
	return nil
}

// bench is a host that hands out logs, and operators.
type bench struct {
	final bool // whether the last text that was read denies the log
	t     *testing.T
	swarm *p2ptest.Swarm
	at    p2p.Addr
	more  chan string

	mu      sync.Mutex
	denied  error  // by the host's owner
	barred  string // by the swarm's rights
	unknown error  // why nobody knows these
}

// ann is an operator beside the one whose SVID has no name.
const ann = "ann"

func newBench(t *testing.T, lines ...string) *bench {
	t.Helper()
	b := &bench{t: t, more: make(chan string), swarm: p2ptest.New(t, func(c *embedded.Config) { c.Paths = map[string][]string{ann: {"/swarm/swci/ann"}} })}
	host := b.swarm.Host(identity.RoleSWOP, swarmID)
	b.at = p2ptest.AddrOf(t, host)
	b.serve(host.Network(), b.swarm.Source(string(identity.RoleSWOP), ""), b.swarm.Domains, printed{lines, b.more})
	return b
}

// serve hands out logs as the node h-0.
func (b *bench) serve(host p2p.Network, source identity.Source, domains identity.Domains, from logs.Source) {
	log := slog.New(slog.DiscardHandler)
	direct.HandOut(host, logs.NewHost(logs.Config{
		Verifier: logs.Verifier{Source: source, Domains: domains, Node: "h-0", SwarmID: func() string { return swarmID }},
		Allow: func(string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.denied
		},
		Rights: func(context.Context, string, *swarmv1.LogPart) (string, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.barred, b.unknown
		},
		Logs: from, Log: log,
	}), "h-0", log)
}

// open opens a stream of an operator of a swarm.
func (b *bench) open(from *p2p.Host) (*p2p.Stream, error) {
	return from.Dial(b.t.Context(), b.at, direct.Protocol)
}

// sign signs a request for the last ten lines; change may change it.
func (b *bench) sign(as string, change func(*swarmv1.LogPart)) *swarmv1.LogOrder {
	b.t.Helper()
	part := &swarmv1.LogPart{Node: "h-0", Tail: 10, ExpiresUnixMs: time.Now().Add(logs.Valid).UnixMilli()}
	if change != nil {
		change(part)
	}
	o, err := logs.Sign(b.swarm.Source(as, ""), swarmID, part)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// read reads to the end of a log, and returns its lines and why there are no more.
func (b *bench) read(s *p2p.Stream, o *swarmv1.LogOrder) (lines []string, refused string, began bool, err error) {
	began, err = direct.Read(b.t.Context(), s, o, soon, func(t *swarmv1.LogText) error {
		for _, l := range t.GetLines() {
			lines = append(lines, l.GetFrom()+": "+l.GetText())
		}
		refused, b.final = t.GetRefused(), t.GetDenied()
		return nil
	})
	return lines, refused, began, err
}

func TestLogComesDirectly(t *testing.T) {
	b := newBench(t, "one", "two", strings.Repeat("x", 20_000))
	s, err := b.open(b.swarm.Host(identity.RoleSWCI, swarmID))
	if err != nil {
		t.Fatal(err)
	}
	part := &swarmv1.LogPart{Node: "h-0", Tail: 2}
	o, err := logs.AskDirect(b.swarm.Source("swci", ""), swarmID, part)
	if err != nil {
		t.Fatal(err)
	}
	lines, refused, began, err := b.read(s, o)
	if got := strings.Join(lines, ""); !began || err != nil || refused != "" || !strings.HasPrefix(got, "sl-0: two") || strings.Count(got, "x") != 20_000 {
		t.Errorf("%.200q, %q, %v", lines, refused, err)
	}
}

// TestFollowedLogIsLive: a line is there when it was printed, and the host reads no more when the operator has gone.
func TestFollowedLogIsLive(t *testing.T) {
	b := newBench(t)
	s, err := b.open(b.swarm.Host(identity.RoleSWCI, swarmID))
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	over := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := direct.Read(ctx, s, b.sign("swci", func(p *swarmv1.LogPart) { p.Follow = true }), soon, func(t *swarmv1.LogText) error {
			for _, l := range t.GetLines() {
				lines <- l.GetText()
			}
			return nil
		})
		over <- err
	}()
	for _, want := range []string{"one", "two"} {
		b.more <- want
		if got := <-lines; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWhoGetsNoLog holds that a log goes to nobody but to the operator who has signed for it, at the host that it names, within its time.
func TestWhoGetsNoLog(t *testing.T) {
	b := newBench(t, "secret")
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	for _, role := range []identity.Role{identity.RoleSN, identity.RoleSL, identity.RoleSWOP, identity.RoleAudit} {
		if _, err := b.open(b.swarm.Host(role, swarmID)); err == nil || !strings.Contains(err.Error(), "may not use "+direct.Protocol) {
			t.Errorf("role %s: %v", role, err)
		}
	}
	if _, err := b.open(b.swarm.Host(identity.RoleSWCI, "swarm-2")); err == nil {
		t.Error("an operator of another swarm has a stream")
	}
	for name, tt := range map[string]struct {
		as     string
		change func(*swarmv1.LogPart)
		denied error
		barred string
		want   string
	}{
		"another's request":  {as: ann, want: "the request is spiffe://swarm.learning/swarm/swci/ann's own"},
		"of another role":    {as: "sl", want: "sl"},
		"at another host":    {change: func(p *swarmv1.LogPart) { p.Node = "h-1" }, want: `it was signed for node "h-1"`},
		"too late":           {change: func(p *swarmv1.LogPart) { p.ExpiresUnixMs = time.Now().Add(-time.Second).UnixMilli() }, want: "the request has expired"},
		"too early":          {change: func(p *swarmv1.LogPart) { p.ExpiresUnixMs = time.Now().Add(time.Hour).UnixMilli() }, want: "expires in more than"},
		"too much":           {change: func(p *swarmv1.LogPart) { p.Tail = logs.MaxTail + 1 }, want: "at most"},
		"sealed":             {change: func(p *swarmv1.LogPart) { p.Key = make([]byte, 1216) }, want: "which comes through SNs"},
		"by the owner's say": {denied: errors.New("not to you"), want: "h-0 hands out no log: not to you"},
		"by the swarm's":     {barred: "no right", want: "h-0 hands out no log: no right"},
	} {
		as := tt.as
		if as == "" {
			as = "swci"
		}
		b.mu.Lock()
		b.denied, b.barred = tt.denied, tt.barred
		b.mu.Unlock()
		s, err := b.open(operator)
		if err != nil {
			t.Fatal(err)
		}
		lines, refused, began, err := b.read(s, b.sign(as, tt.change))
		if len(lines) > 0 || !began || err != nil || !strings.Contains(refused, tt.want) {
			t.Errorf("%s: %q, refused %q, %v", name, lines, refused, err)
		}
	}
	b.mu.Lock()
	b.denied, b.barred, b.unknown = nil, "", errors.New("no SN answers")
	b.mu.Unlock()
	s, err := b.open(operator)
	if err != nil {
		t.Fatal(err)
	}
	if lines, _, began, err := b.read(s, b.sign("swci", nil)); began || err == nil {
		t.Errorf("without anybody who knows the rights: %q, %v", lines, err)
	}
}

// TestBadRequests: what is no request ends the stream, unread beyond its bounds.
func TestBadRequests(t *testing.T) {
	b := newBench(t, "secret")
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	for name, raw := range map[string][]byte{
		"huge":       binary.BigEndian.AppendUint32(nil, 1<<31),
		"long":       append(binary.BigEndian.AppendUint32(nil, 25<<10), make([]byte, 25<<10)...),
		"no message": append(binary.BigEndian.AppendUint32(nil, 3), 0xff, 0xff, 0xff),
	} {
		s, err := b.open(operator)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetDeadline(time.Now().Add(soon))
		_, _ = s.Write(raw) // it may be reset meanwhile
		if m, err := p2p.ReadFrame(s, logs.MaxDirect); err == nil {
			t.Errorf("%s: answered with %d bytes", name, len(m))
		}
		_ = s.Reset()
	}
}

// TestFlood: one operator has so many streams, and may ask so often; another one is served meanwhile.
func TestFlood(t *testing.T) {
	b := newBench(t, "line")
	operator := b.swarm.Host(identity.RoleSWCI, swarmID)
	var open []*p2p.Stream
	for range 16 {
		s, err := b.open(operator) // which asks for nothing yet
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	ask := func(host *p2p.Host, as string) (lines []string, refused string, err error) {
		s, err := b.open(host)
		if err != nil {
			t.Fatal(err)
		}
		lines, refused, _, err = b.read(s, b.sign(as, nil))
		return lines, refused, err
	}
	deadline := time.Now().Add(soon) // streams are served a moment after they stand
	for refused := ""; !strings.Contains(refused, "h-0 hands out 16 logs to spiffe://swarm.learning/swarm/swci already: end one of them first"); {
		if _, refused, _ = ask(operator, "swci"); time.Now().After(deadline) {
			t.Fatalf("one more: %q", refused)
		}
	}
	if b.final {
		t.Error("who finds no room is denied the log, and does not ask through SNs")
	}
	cfg := b.swarm.Config(identity.RoleSWCI, swarmID)
	cfg.Source = b.swarm.Source(ann, "")
	other := p2ptest.Start(t, cfg)
	if lines, refused, err := ask(other, ann); refused != "" || err != nil || !cmp.Equal(lines, []string{"sl-0: line"}) {
		t.Errorf("another operator: %q, %q, %v", lines, refused, err)
	}
	for _, s := range open {
		_ = s.Reset()
	}
	for lines := []string(nil); len(lines) == 0; {
		if lines, _, _ = ask(operator, "swci"); time.Now().After(deadline) {
			t.Fatal("ended streams leave no room")
		}
	}
	for range 80 {
		if _, refused, _ := ask(operator, "swci"); strings.Contains(refused, "too often: ask again in") {
			return
		}
	}
	t.Error("nobody asks too often")
}

// marshalled is a text as it is sent.
func marshalled(t *testing.T, m *swarmv1.LogText) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
