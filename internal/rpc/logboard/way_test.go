package logboard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/rpc/logboard"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const swarmID = "swarm-1"

// kept is what a host logs, while others read it.
type kept struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.Write(b)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.String()
}

// way is the way of a log: an operator, the SN that leads, and a host.
type way struct {
	t         *testing.T
	authority *rpctest.Authority
	operator  *rpctest.Source
	domains   identity.Domains

	mu    sync.Mutex
	board *logboard.Board // of the SN that leads
	gone  bool            // the host is
	log   kept            // the host's
	host  *logs.Host
}

// printed is a source of lines; where it is followed, of one more each second until last.
type printed struct{ lines []string }

func (p printed) Log(ctx context.Context, w logs.Wanted, emit func(logs.Line) error) error {
	if w.Assignment == "9" {
		return errors.New("h-0 has no log of assignment 9")
	}
	if w.Figures {
		return emit(logs.Line{Text: "{}"})
	}
	for i, l := range p.lines[max(len(p.lines)-w.Tail, 0):] {
		if w.Follow && i > 0 {
			time.Sleep(time.Second)
		}
		if err := emit(logs.Line{From: "h-0-sl-0", Text: l}); err != nil {
			return err
		}
	}
	return nil
}

// newWay begins with a host that prints these lines, in a bubble.
func newWay(t *testing.T, lines ...string) *way {
	t.Helper()
	a, err := rpctest.NewAuthority("h.org")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{t: t, authority: a, operator: issue(t, a, "/swarm/swci/ann"), board: logboard.New()}
	if w.domains, err = a.Domains(); err != nil {
		t.Fatal(err)
	}
	w.host = logs.NewHost(logs.Config{
		Verifier: logs.Verifier{Source: issue(t, a, "/swarm/swop/h-0"), Domains: w.domains, Node: "h-0", SwarmID: func() string { return swarmID }},
		Allow: func(by string) error {
			if !strings.HasSuffix(by, "/ann") {
				return errors.New("logs of this host do not go to " + by)
			}
			return nil
		},
		Logs: printed{lines}, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Send: func(_ context.Context, req *swarmv1.SendLogsRequest) (*swarmv1.SendLogsResponse, error) {
			b, up := w.leader()
			if !up {
				return nil, errors.New("the link is cut")
			}
			return b.Send("h-0", req)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.host.Run(ctx) })
	running.Go(func() { // heartbeats
		for ctx.Err() == nil {
			if b, up := w.leader(); up {
				w.host.Take(b.Of("h-0"))
			}
			time.Sleep(time.Second)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func issue(t *testing.T, a *rpctest.Authority, path string) *rpctest.Source {
	t.Helper()
	s, err := a.Issue(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *way) leader() (*logboard.Board, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board, !w.gone
}

// reader asks for a log.
func (w *way) reader(part *swarmv1.LogPart) *logs.Reader {
	w.t.Helper()
	if part.Node == "" {
		part.Node = "h-0"
	}
	r := &logs.Reader{Source: w.operator, Domains: w.domains, Part: part, Role: identity.RoleSWOP}
	if err := r.Ask(swarmID, time.Now().Add(logs.Valid).UnixMilli()); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// errSilent says what an SN says of a host that is gone.
var errSilent = errors.New("silent")

// read reads to the end; meddle may change what the SN answers.
func (w *way) read(r *logs.Reader, meddle func(*swarmv1.ReadLogsResponse)) (lines []string, last *swarmv1.LogText, err error) {
	for {
		b, _ := w.leader()
		res, err := b.Read(w.t.Context(), "ann", logs.ID(r.Order, swarmID), &swarmv1.ReadLogsRequest{Part: r.Part, Order: r.Order, Have: r.Have()})
		if err != nil {
			return lines, nil, err
		}
		if res.GetSilent() {
			return lines, nil, errSilent
		}
		if res = proto.CloneOf(res); meddle != nil {
			meddle(res)
		}
		all, err := r.Open(res.GetOpening(), res.GetChunks())
		for _, t := range all {
			for _, l := range t.GetLines() {
				lines = append(lines, l.GetText())
			}
			if t.GetOver() {
				return lines, t, nil
			}
		}
		if err != nil {
			return lines, nil, err
		}
	}
}

// TestALogReachesWhoAsks holds that an operator gets the last lines, also those of a long log, and that the host says so.
func TestALogReachesWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := make([]string, 20_000)
		for i := range long {
			long[i] = fmt.Sprintf("line %06d %s", i, strings.Repeat("x", 100))
		}
		w := newWay(t, long...)
		r := w.reader(&swarmv1.LogPart{Assignment: "7", Tail: logs.MaxTail})
		got, last, err := w.read(r, nil)
		if want := long[len(long)-logs.MaxTail:]; err != nil || !slices.Equal(got, want) || last.GetRefused() != "" {
			t.Fatalf("%d lines, %v, %v", len(got), last, err)
		}
		if r.By().String() != "spiffe://h.org/swarm/swop/h-0" {
			t.Errorf("sealed by %s", r.By())
		}
		if !strings.Contains(w.log.String(), `msg="a log is handed out" by=spiffe://h.org/swarm/swci/ann assignment=7 tail=10000`) {
			t.Errorf("the host says %s", w.log.String())
		}
	})
}

// TestWhoMayNot holds that a host refuses in one line, and says so.
func TestWhoMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign, err := rpctest.NewAuthority("h.org")
		if err != nil {
			t.Fatal(err)
		}
		w := newWay(t, "secret")
		ann := w.operator
		for name, tt := range map[string]struct {
			by     *rpctest.Source
			part   *swarmv1.LogPart
			want   string
			denied bool
		}{
			"whom the policy does not name":     {issue(t, w.authority, "/swarm/swci/eve"), &swarmv1.LogPart{Tail: 1}, "h-0 hands out no log: logs of this host do not go to spiffe://h.org/swarm/swci/eve", true},
			"an SN":                             {issue(t, w.authority, "/swarm/sn"), &swarmv1.LogPart{Tail: 1}, "is no operator", true},
			"an authority that is not accepted": {issue(t, foreign, "/swarm/swci/ann"), &swarmv1.LogPart{Tail: 1}, "the request proves nothing", true},
			"no such log":                       {ann, &swarmv1.LogPart{Tail: 1, Assignment: "9"}, "h-0 has no log of assignment 9", false},
		} {
			w.operator = tt.by
			r := w.reader(tt.part)
			r.Source = ann // to prove the host's answer, which a foreign authority could not
			got, last, err := w.read(r, nil)
			if err != nil || len(got) > 0 || last.GetDenied() != tt.denied || !strings.Contains(last.GetRefused(), tt.want) {
				t.Errorf("%s: %q, %v, %v", name, got, last, err)
			}
		}
		if n := strings.Count(w.log.String(), "a log is not handed out"); n != 3 {
			t.Errorf("%d refusals in the host's log:\n%s", n, w.log.String())
		}
	})
}

// TestFiguresAgainAndAgain holds that a page may ask for a node's figures for hours: each time there is an answer at once, and the host's log, which
// has room for few lines, says it once in ten minutes of each who asks.
func TestFiguresAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay(t, "secret")
		ann, eve := w.operator, issue(t, w.authority, "/swarm/swci/eve")
		for range 150 {
			for by, want := range map[*rpctest.Source]string{ann: "", eve: "h-0 hands out no figures, which go where its log goes: logs of this host do not go to spiffe://h.org/swarm/swci/eve"} {
				begun := time.Now()
				w.operator = by
				r := w.reader(&swarmv1.LogPart{Figures: true})
				got, last, err := w.read(r, nil)
				if err != nil || last.GetRefused() != want || (want == "") != slices.Equal(got, []string{"{}"}) || time.Since(begun) > 2*time.Second {
					t.Fatalf("after %v: %q, %v, %v", time.Since(begun), got, last, err)
				}
				if _, err := w.board.Read(t.Context(), "ann", logs.ID(r.Order, swarmID), &swarmv1.ReadLogsRequest{Part: r.Part, Order: r.Order, Done: true}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(5 * time.Second)
		}
		said := w.log.String()
		if out, no := strings.Count(said, `msg="a log is handed out" by=spiffe://h.org/swarm/swci/ann`), strings.Count(said, `msg="a log is not handed out" by=spiffe://h.org/swarm/swci/eve`); out != 2 || no != 2 || strings.Contains(said, "not read to its end") {
			t.Errorf("the host says %d times that figures go out, and %d times that they do not:\n%s", out, no, said)
		}
	})
}

// TestARequestIsHeldToWhatWasSigned holds that an SN can't use a request for another node, another swarm or at another time.
func TestARequestIsHeldToWhatWasSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWay(t, "secret")
		for name, change := range map[string]func(r *logs.Reader){
			"another node": func(r *logs.Reader) {
				*r = *w.reader(&swarmv1.LogPart{Node: "h-1", Tail: 1})
				r.Part = proto.CloneOf(r.Part)
				r.Part.Node = "h-0" // by which the SN finds the host
			},
			"another swarm": func(r *logs.Reader) {
				if err := r.Ask("swarm-2", time.Now().Add(time.Minute).UnixMilli()); err != nil {
					t.Fatal(err)
				}
			},
			"expired": func(r *logs.Reader) {
				if err := r.Ask(swarmID, time.Now().UnixMilli()); err != nil {
					t.Fatal(err)
				}
			},
			"for ever": func(r *logs.Reader) {
				if err := r.Ask(swarmID, time.Now().Add(time.Hour).UnixMilli()); err != nil {
					t.Fatal(err)
				}
			},
			"another key": func(r *logs.Reader) {
				part := proto.CloneOf(r.Part)
				part.Tail++
				r.Order.Request, _ = proto.Marshal(part)
			},
		} {
			r := w.reader(&swarmv1.LogPart{Tail: 1})
			change(r)
			got, last, err := w.read(r, nil)
			if err == nil && (!last.GetDenied() || len(got) > 0) {
				t.Errorf("%s: %q, %v", name, got, last)
			}
		}
	})
}

// TestAnSNThatMeddles holds that an operator notices what an SN does to a log, and that what it has of it says nothing.
func TestAnSNThatMeddles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := slices.Repeat([]string{strings.Repeat("secret ", 1000)}, 40)
		w := newWay(t, lines...)
		sn := issue(t, w.authority, "/swarm/sn/sn-0")
		for name, meddle := range map[string]func(r *logs.Reader, res *swarmv1.ReadLogsResponse){
			"changes a chunk": func(_ *logs.Reader, res *swarmv1.ReadLogsResponse) {
				for _, c := range res.GetChunks() {
					c.Sealed[0] ^= 1
				}
			},
			"leaves one out": func(_ *logs.Reader, res *swarmv1.ReadLogsResponse) {
				if len(res.GetChunks()) > 0 {
					res.Chunks = res.GetChunks()[1:]
				}
				for _, c := range res.GetChunks() {
					c.Number--
				}
			},
			"answers itself": func(r *logs.Reader, res *swarmv1.ReadLogsResponse) {
				if res.GetOpening() == nil {
					return
				}
				svid, _ := sn.GetX509SVID()
				res.Opening.Chain = identity.RawChain(svid)
				res.Opening.Signature, _ = identity.SignWithSVID(svid, identity.LogsMessage(logs.ID(r.Order, swarmID), res.GetOpening().GetEncapsulated()))
			},
			"shows another's answer": func(_ *logs.Reader, res *swarmv1.ReadLogsResponse) {
				if res.GetOpening() != nil {
					res.Opening.Signature = bytes.Clone(res.GetOpening().GetSignature())
					res.Opening.Encapsulated[0] ^= 1
				}
			},
			"turns text around": func(_ *logs.Reader, res *swarmv1.ReadLogsResponse) {
				for _, c := range res.GetChunks() {
					if bytes.Contains(c.GetSealed(), []byte("secret")) {
						t.Error("an SN can read the log")
					}
				}
				slices.Reverse(res.GetChunks())
				for i, c := range res.GetChunks() {
					c.Number = uint64(i) + 1
				}
			},
		} {
			r := w.reader(&swarmv1.LogPart{Tail: 40})
			got, _, err := w.read(r, func(res *swarmv1.ReadLogsResponse) {
				if r.Have() == 0 {
					meddle(r, res)
				}
			})
			if err == nil || errors.Is(err, errSilent) || len(got) > 0 && name != "turns text around" {
				t.Errorf("%s: %d lines, %v", name, len(got), err)
			}
		}
	})
}

// TestAnotherLeader holds that a log goes on where it was when another SN leads, with nothing left out and nothing twice.
func TestAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		for i := range 60 {
			lines = append(lines, fmt.Sprint("line ", i))
		}
		w := newWay(t, lines...)
		for _, after := range []time.Duration{1500, 9100, 20_250, 33_000} {
			time.AfterFunc(after*time.Millisecond, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.board = logboard.New()
			})
		}
		got, last, err := w.read(w.reader(&swarmv1.LogPart{Tail: 100, Follow: true}), nil)
		if err != nil || !slices.Equal(got, lines) || last.GetRefused() != "" {
			t.Errorf("%v, %v\n%q", err, last, got)
		}
	})
}

// TestAHostThatIsGone holds that whoever reads hears of it, and that the host does not go on for ever once nobody reads.
func TestAHostThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := slices.Repeat([]string{"x"}, 1000)
		w := newWay(t, lines...)
		time.AfterFunc(5*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.gone = true
		})
		begun := time.Now()
		got, _, err := w.read(w.reader(&swarmv1.LogPart{Tail: 2000, Follow: true}), nil)
		if took := time.Since(begun); !errors.Is(err, errSilent) || len(got) < 3 || took > 25*time.Second {
			t.Errorf("%d lines, %v after %v", len(got), err, took)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if !strings.Contains(w.log.String(), "a log is not read to its end") {
			t.Errorf("the host goes on: %s", w.log.String())
		}
	})
}

// TestAnOperatorWhoGoes holds that the board forgets what nobody reads, also if nobody calls it any more, and its bounds: of an SVID, of a
// SPIFFE ID that operators share, of a node, and of all.
func TestAnOperatorWhoGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := logboard.New()
		asked := 0
		ask := func(by, svid, node string, done bool) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if !done {
				asked++
			}
			order := &swarmv1.LogOrder{Chain: [][]byte{[]byte(svid)}}
			_, err := b.Read(ctx, by, fmt.Append(nil, by, asked), &swarmv1.ReadLogsRequest{Part: &swarmv1.LogPart{Node: node}, Order: order, Done: done})
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		}
		refused := func(by, svid, node, want string) {
			t.Helper()
			if err := ask(by, svid, node, false); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		for i := range 64 {
			if err := ask(fmt.Sprint("op-", i/32), fmt.Sprint("svid-", i/16), fmt.Sprint("h-", i/8), false); err != nil {
				t.Fatal(i, err)
			}
			switch i {
			case 7:
				refused("op-0", "svid-0", "h-0", `op-0 reads 8 logs of "h-0"`)
			case 15:
				refused("op-0", "svid-0", "h-9", "op-0 reads 16 logs at a time")
			case 31:
				refused("op-0", "svid-9", "h-9", "those who share op-0 read 32 logs")
			}
		}
		refused("op-9", "svid-9", "h-9", "operators read 64 logs")
		if n := len(b.Of("h-1")); n != 8 {
			t.Errorf("a host is told of %d at a time", n)
		}
		asked = 64 + 4 // the last one that was refused is none
		if err := ask("op-1", "svid-3", "h-7", true); err != nil || b.Kept() != 64 {
			t.Errorf("what is not there ends: %v, %d are kept", err, b.Kept())
		}
		time.Sleep(14 * time.Second)
		asked = 0
		if err := ask("op-0", "svid-0", "h-0", false); err != nil { // the first one is read again
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if n := b.Kept(); n != 1 {
			t.Errorf("%d are kept, though one is read", n)
		}
		time.Sleep(15 * time.Second)
		if n := b.Kept(); n != 0 {
			t.Errorf("%d are kept though nobody reads", n)
		}
		asked = 0
		if err := errors.Join(ask("op-0", "svid-0", "h-0", false), ask("op-0", "svid-0", "h-0", true)); err != nil || b.Kept() != 0 {
			t.Errorf("%v: %d are kept though the reader is done", err, b.Kept())
		}
	})
}

// TestWhatANodeSendsIsBounded holds the bounds of what an SN keeps.
func TestWhatANodeSendsIsBounded(t *testing.T) {
	b := logboard.New()
	opening := &swarmv1.LogOpening{Encapsulated: []byte{1}}
	for name, req := range map[string]*swarmv1.SendLogsRequest{
		"no opening":      {},
		"a large opening": {Opening: &swarmv1.LogOpening{Encapsulated: make([]byte, logs.MaxOpening+1)}},
		"a large chunk":   {Opening: opening, Chunks: []*swarmv1.LogChunk{{Number: 1, Sealed: make([]byte, logs.MaxSealed+1)}}},
	} {
		if _, err := b.Send("h-0", req); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if res, err := b.Send("h-0", &swarmv1.SendLogsRequest{Opening: opening}); err != nil || !res.GetUnknown() {
		t.Errorf("what nobody asks for: %v, %v", res, err)
	}
}
