package consent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/consent"
	owners "github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const (
	swarmID = "0123456789abcdef0123456789abcdef"
	host    = "swop-0"
	ann     = "/swarm/swci/ann"
	bob     = "/swarm/swci/bob"
)

// world is a host with its bundle, operators, and what an SN shows.
type world struct {
	t         *testing.T
	authority *rpctest.Authority
	svids     map[string]*rpctest.Source // by path
	policy    policy
	images    images
	dir       string
	journal   *consent.Journal
	log       *bytes.Buffer
}

// policy is what the owner thinks, who has bob approve.
type policy struct {
	consent.Verdict

	mu      sync.Mutex
	judged  []string                                  // images
	best    consent.Decision                          // at best; empty: Allowed
	judging func(id string)                           // called before the verdict is given; nil: nothing is
	soon    func(image *owners.Image) consent.Verdict // the verdict by the image; nil: that of all
	keeps   *consent.Verdict                          // the verdict on what runs; nil: that of all
}

// Decide implements consent.Policy.
func (p *policy) Decide(_ context.Context, _ string, h *task.Hosted, _ *task.Task, image *owners.Image) consent.Verdict {
	if p.judging != nil {
		p.judging(h.ID)
	}
	if image != nil {
		p.mu.Lock()
		p.judged = append(p.judged, image.String())
		p.mu.Unlock()
	}
	if p.soon != nil {
		return p.soon(image)
	}
	return p.Verdict
}

// Keeps implements consent.Policy.
func (p *policy) Keeps(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *owners.Image) consent.Verdict {
	if p.keeps != nil {
		return *p.keeps
	}
	return p.Decide(ctx, by, h, t, image)
}

// Hopes implements consent.Policy.
func (p *policy) Hopes(string, *task.Hosted, *task.Task) consent.Verdict {
	return consent.Verdict{Decision: cmp.Or(p.best, consent.Allowed), Sentence: "no image would do"}
}

// Approves implements consent.Policy.
func (*policy) Approves(approver, submitter string) error {
	if approver == submitter || approver != "spiffe://a.example"+bob {
		return errors.New(approver + " is no approver of this host")
	}
	return nil
}

// images are those of the host's engine, where a name stands for another one each time.
type images struct {
	mu    sync.Mutex
	found int
	now   func() (*owners.Image, error) // nil: tasks have none
	no    consent.Verdict               // why none is found
}

func (i *images) find(context.Context, *task.Task) (*owners.Image, consent.Verdict) {
	i.mu.Lock()
	i.found++
	i.mu.Unlock()
	if i.no.Decision != "" {
		return nil, i.no
	}
	if i.now == nil {
		return nil, consent.Verdict{Decision: consent.Allowed}
	}
	image, err := i.now()
	if err != nil {
		return nil, consent.Verdict{Decision: consent.Refused, Sentence: err.Error()}
	}
	return image, consent.Verdict{Decision: consent.Allowed}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, svids: map[string]*rpctest.Source{}, dir: t.TempDir(), log: &bytes.Buffer{}, policy: policy{Verdict: consent.Verdict{Decision: consent.Allowed, Sentence: "Allow all"}}}
	var err error
	if w.authority, err = rpctest.NewAuthority("a.example"); err != nil {
		t.Fatal(err)
	}
	return w
}

// svid is that of a path, for an hour from when it was first asked for.
func (w *world) svid(path string) *rpctest.Source {
	w.t.Helper()
	if w.svids[path] == nil {
		w.svids[path] = issue(w.t, w.authority, path)
	}
	return w.svids[path]
}

func issue(t *testing.T, a *rpctest.Authority, path string) *rpctest.Source {
	t.Helper()
	s, err := a.Issue(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// guard is that of a host that is started, or started again.
func (w *world) guard() *consent.Guard {
	w.t.Helper()
	if w.journal != nil {
		if err := w.journal.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	if w.journal, err = consent.OpenJournal(w.dir, slog.New(slog.DiscardHandler)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if w.journal != nil {
			_ = w.journal.Close()
		}
	})
	return consent.New(consent.Config{
		Verifier: w.verifier(), SwarmID: func() string { return swarmID }, Policy: &w.policy, Image: w.images.find, Journal: w.journal, Log: slog.New(slog.NewTextHandler(w.log, nil)),
	})
}

func (w *world) verifier() consent.Verifier {
	w.t.Helper()
	domains, err := w.authority.Domains()
	if err != nil {
		w.t.Fatal(err)
	}
	return consent.Verifier{Source: w.svid("/swarm/swop/" + host), Domains: domains, Node: host, Taskrunner: "tr", Peers: 3}
}

// asking is what an operator signs to have a request carried out.
func asking(q task.Request) *swarmv1.AssignTaskRequest {
	m := &swarmv1.AssignTaskRequest{
		Id: q.ID, Task: q.Task, Digest: q.Digest, Taskrunner: q.Taskrunner, Hosts: q.Hosts, InOrder: q.InOrder, Retries: q.Retries, TimeoutMs: q.TimeoutMS,
		ExpiresUnixMs: q.ExpiresMS, Joins: q.Joins, Done: q.Done, ReadyMs: q.ReadyMS, LivesMs: q.LivesMS, Together: q.Together, GraceMs: q.GraceMS, Beside: q.Beside,
	}
	for _, g := range q.Groups {
		m.Groups = append(m.Groups, &swarmv1.TaskGroup{Name: g.Name, Peers: g.Peers, Least: g.Least})
	}
	return m
}

// written is a request in the form in which it is signed.
func written(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(json.RawMessage(raw))
}

// pull is a task with its definition.
func pull() *task.Task {
	t := &task.Task{Name: "pull", Type: task.PullImage, Prereq: task.Root, Definition: []byte("Contents:\n")}
	t.Digest = t.Sum()
	return t
}

// request is what an operator asks for.
func request() task.Request {
	return task.Request{
		ID: "7", Task: "pull", Digest: pull().Digest, Taskrunner: "tr", Groups: []task.Group{{Name: "peers", Peers: 2, Least: 1}}, Retries: 1,
		ExpiresMS: time.Now().Add(24 * time.Hour).UnixMilli(),
	}
}

// signed is any request that an operator has signed to have a task carried out.
func (w *world) signed(by string, raw []byte) *ledger.Order {
	w.t.Helper()
	o := w.order(w.svid(by), swarmID, "AssignTask", &swarmv1.AssignTaskRequest{})
	o.Request = raw
	svid, err := w.svid(by).GetX509SVID()
	if err != nil {
		w.t.Fatal(err)
	}
	if o.Signature, err = identity.SignWithSVID(svid, message(o, swarmID)); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// message is what is signed of an order.
func message(o *ledger.Order, swarm string) []byte {
	return identity.OrderMessage(identity.Order{
		SwarmID: swarm, Method: o.Method, Request: o.Request, Nonce: o.Nonce, Ledger: o.Witnessed.Hash, Length: o.Witnessed.Length, AskedMS: o.AskedMS,
	})
}

// order is a request that an operator has signed.
func (w *world) order(by *rpctest.Source, swarm, method string, request proto.Message) *ledger.Order {
	w.t.Helper()
	raw, err := written(request)
	if err != nil {
		w.t.Fatal(err)
	}
	svid, err := by.GetX509SVID()
	if err != nil {
		w.t.Fatal(err)
	}
	o := &ledger.Order{
		By: svid.ID.String(), Method: method, Request: raw, AskedMS: time.Now().UnixMilli(), Nonce: []byte{1, 2}, Chain: identity.RawChain(svid),
		Witnessed: ledger.Witness{Length: 3, Hash: strings.Repeat("a", 64)},
	}
	if o.Signature, err = identity.SignWithSVID(svid, message(o, swarm)); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// assigned is what an honest SN shows of a request of an operator.
func (w *world) assigned(q task.Request, by string) *task.Hosted {
	w.t.Helper()
	return &task.Hosted{
		Request: q, Epoch: 1, Phase: task.Preparing, Order: w.order(w.svid(by), swarmID, "AssignTask", asking(q)),
		Members: []task.HostedMember{{Group: "peers", Peers: 1, State: task.Placed}},
	}
}

// job makes of an assignment one of a job, of which the host is n members. The operator has signed for two.
func (w *world) job(h *task.Hosted, shown *task.Task, n int) {
	w.t.Helper()
	shown.Type = task.RunJob
	shown.Digest = shown.Sum()
	q := request()
	q.Digest = shown.Digest
	*h = *w.assigned(q, ann)
	h.Members = nil
	for i := range n {
		h.Members = append(h.Members, task.HostedMember{Index: uint32(i), Group: "peers", Peers: 1, State: task.Placed})
	}
}

// TestALyingSN: whatever an SN changes of what an operator has signed, the host refuses it and says what is wrong.
func TestALyingSN(t *testing.T) {
	foreign, err := rpctest.NewAuthority("a.example") // the name is right, the key is not
	if err != nil {
		t.Fatal(err)
	}
	other, err := rpctest.NewAuthority("b.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		lie        func(w *world, h *task.Hosted, shown *task.Task)
	}{
		{"honest", "", func(*world, *task.Hosted, *task.Task) {}},
		{"an honest one of a job", "", func(w *world, h *task.Hosted, shown *task.Task) { w.job(h, shown, 2) }},
		{"an honest one of a shared entry", "", func(w *world, h *task.Hosted, _ *task.Task) { *h = *w.assigned(request(), "/swarm/swci") }},
		{"another definition under the name", "shows another task pull than the operator signed", func(_ *world, _ *task.Hosted, shown *task.Task) {
			shown.Definition = []byte("Contents: evil\n")
		}},
		{"another definition with its digest", "signed task digest", func(_ *world, h *task.Hosted, shown *task.Task) {
			shown.Definition = []byte("Contents: evil\n")
			shown.Digest = shown.Sum()
			h.Digest = shown.Digest
		}},
		{"another task", `signed task "pull"`, func(_ *world, h *task.Hosted, shown *task.Task) { h.Task, shown.Name = "evil", "evil" }},
		{"other words of the task", "shows another task pull", func(_ *world, _ *task.Hosted, shown *task.Task) { shown.Outcome = "evil" }},
		{"no digest signed", "signed no digest", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.Digest = ""
			*h = *w.assigned(q, ann)
			h.Digest = pull().Digest
		}},
		{"another ID", `signed assignment "7"`, func(_ *world, h *task.Hosted, _ *task.Task) { h.ID = "8" }},
		{"another taskrunner", "signed taskrunner", func(_ *world, h *task.Hosted, _ *task.Task) { h.Taskrunner = "evil" }},
		{"what is signed for the hosts of another taskrunner", "swop-0 takes tasks of", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.Taskrunner = "lab"
			*h = *w.assigned(q, ann)
		}},
		{"other hosts", "signed hosts", func(_ *world, h *task.Hosted, _ *task.Task) { h.Hosts = []string{host} }},
		{"this host, which was not named", "signed for other hosts than swop-0", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.Hosts = []string{"swop-1"}
			*h = *w.assigned(q, ann)
		}},
		{"more peers", "signed groups", func(_ *world, h *task.Hosted, _ *task.Task) {
			h.Groups = []task.Group{{Name: "peers", Peers: 99, Least: 1}}
		}},
		{"a member of another group", "signed for no group", func(_ *world, h *task.Hosted, _ *task.Task) { h.Members[0].Group = "evil" }},
		{"another's place", "signed taskrunner and assignment to join", func(_ *world, h *task.Hosted, _ *task.Task) { h.Joins = "5" }},
		{"a start without order", "signed groups", func(_ *world, h *task.Hosted, _ *task.Task) { h.InOrder = true }},
		{"more retries", "signed retries", func(_ *world, h *task.Hosted, _ *task.Task) { h.Retries = 9 }},
		{"no time-out", "signed retries and time-out", func(_ *world, h *task.Hosted, _ *task.Task) { h.TimeoutMS = 5 }},
		{"another end of the job", `signed terms of the job "{ 0 0 false 0 false }"`, func(_ *world, h *task.Hosted, _ *task.Task) { h.Done = task.DoneAny }},
		{"a longer life", "signed terms of the job", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.LivesMS, q.Together = 5, true
			*h = *w.assigned(q, ann)
			h.LivesMS++
		}},
		{"a placement too many", "signed for 1 retries, and this is placement 3", func(_ *world, h *task.Hosted, _ *task.Task) { h.Epoch = 3 }},
		{"a later expiry", "signed expiry", func(_ *world, h *task.Hosted, _ *task.Task) { h.ExpiresMS++ }},
		{"an expired order", "has expired at", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.ExpiresMS = time.Now().UnixMilli()
			*h = *w.assigned(q, ann)
		}},
		{"no expiry", "no expiry", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.ExpiresMS = 0
			*h = *w.assigned(q, ann)
		}},
		{"two parts for one host", "be 2 members of it at a time", func(_ *world, h *task.Hosted, _ *task.Task) { h.Members = append(h.Members, h.Members...) }},
		{"a part that is not one", "signed for fewer members of group", func(w *world, h *task.Hosted, shown *task.Task) {
			w.job(h, shown, 3)
		}},
		{"one part twice", "be member 0 twice", func(w *world, h *task.Hosted, shown *task.Task) {
			w.job(h, shown, 2)
			h.Members[1].Index = 0
		}},
		{"a part of nobody", "signed for fewer members than the SN has: this host would be member 2", func(w *world, h *task.Hosted, shown *task.Task) {
			w.job(h, shown, 2)
			h.Members[1].Index = 2
		}},
		{"a part of nobody in a task that is no job", "this host would be member 2", func(_ *world, h *task.Hosted, _ *task.Task) { h.Members[0].Index = 2 }},
		{"a part in another group", `signed for member 1 in group "peers", the SN shows it in group "more"`, func(w *world, h *task.Hosted, shown *task.Task) {
			w.job(h, shown, 2)
			q := h.Request
			q.Groups = append(q.Groups, task.Group{Name: "more", Peers: 1})
			members := h.Members
			*h = *w.assigned(q, ann)
			h.Members = members
			h.Members[1].Group = "more"
		}},
		{"a part for two peers", "counts this host for 2 peers, and it offers 1", func(w *world, h *task.Hosted, shown *task.Task) {
			w.job(h, shown, 2)
			h.Members[1].Peers = 2
		}},
		{"more peers than the host is", "counts this host for 3 peers, and it offers 1", func(_ *world, h *task.Hosted, _ *task.Task) { h.Members[0].Peers = 3 }},
		{"an expiry without end", "at most 7 days", func(w *world, h *task.Hosted, _ *task.Task) {
			q := request()
			q.ExpiresMS = 1<<63 - 1
			*h = *w.assigned(q, ann)
		}},
		{"no order", "shows no operator's order", func(_ *world, h *task.Hosted, _ *task.Task) { h.Order = nil }},
		{"an order for something else", `order is for "CancelAssignment"`, func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(w.svid(ann), swarmID, "CancelAssignment", asking(request()))
		}},
		{"an order with another method's name", "did not sign", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(w.svid(ann), swarmID, "CancelAssignment", asking(request()))
			h.Order.Method = "AssignTask"
		}},
		{"an order of another swarm", "did not sign this request for this swarm", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(w.svid(ann), "ffff", "AssignTask", asking(h.Request))
		}},
		{"an order that was changed", "did not sign", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Hosts = []string{host}
			h.Order.Request = w.order(w.svid(ann), swarmID, "AssignTask", asking(h.Request)).Request
		}},
		{"an order with blanks", "has blanks", func(_ *world, h *task.Hosted, _ *task.Task) { h.Order.Request = append(h.Order.Request, ' ') }},
		{"a condition that the host does not know", "can't be read", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.signed(ann, []byte(`{"id":"7","only_at_night":true}`))
		}},
		{"an order without end", "at most 65536", func(_ *world, h *task.Hosted, _ *task.Task) { h.Order.Request = make([]byte, 1<<20) }},
		{"an order of an SN", "is no operator", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(w.svid("/swarm/sn/evil"), swarmID, "AssignTask", asking(h.Request))
		}},
		{"an authority that made itself", "proves nothing", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(issue(w.t, foreign, ann), swarmID, "AssignTask", asking(h.Request))
		}},
		{"another swarm's bundle", "proves nothing", func(w *world, h *task.Hosted, _ *task.Task) {
			h.Order = w.order(issue(w.t, other, ann), swarmID, "AssignTask", asking(h.Request))
		}},
		{"the ID of another in the order", "", func(_ *world, h *task.Hosted, _ *task.Task) {
			h.Order.By, h.By = "spiffe://a.example"+bob, "spiffe://a.example"+bob
		}},
		{"no task", "shows no task pull", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				shown, h := pull(), w.assigned(request(), ann)
				if tt.lie == nil {
					shown = nil
				} else {
					tt.lie(w, h, shown)
				}
				got := w.guard().Ask(t.Context(), h, shown)
				e, known := w.journal.Find(h.ID)
				switch {
				case tt.want == "" && (got != consent.Answer{Decision: consent.Allowed} || !known || !strings.HasPrefix(e.By, "spiffe://a.example/swarm/swci") || strings.HasSuffix(e.By, "bob")):
					t.Errorf("got %v, and the journal has %+v", got, e)
				case tt.want != "" && (got.Decision != consent.Refused || !strings.Contains(got.Words, tt.want)):
					t.Errorf("got %v, want a refusal with %q", got, tt.want)
				case tt.want != "" && known:
					t.Errorf("the journal has %+v", e)
				}
			})
		})
	}
}

// TestOnlyAcceptedDomains: a bundle that is there for other ends makes nobody an operator here.
func TestOnlyAcceptedDomains(t *testing.T) {
	w := newWorld(t)
	other, err := rpctest.NewAuthority("b.example")
	if err != nil {
		t.Fatal(err)
	}
	v := w.verifier()
	if v.Source, err = w.authority.Issue("/swarm/swop/"+host, time.Hour, other); err != nil {
		t.Fatal(err)
	}
	h := w.assigned(request(), ann)
	h.Order = w.order(issue(t, other, ann), swarmID, "AssignTask", asking(h.Request))
	if by, err := v.Verify(h, swarmID, time.Now()); err == nil || !strings.Contains(err.Error(), "not accepted") {
		t.Errorf("%v, %v", by, err)
	}
	if v.Domains, err = w.authority.Domains("b.example"); err != nil {
		t.Fatal(err)
	}
	if by, err := v.Verify(h, swarmID, time.Now()); err != nil || by.String() != "spiffe://b.example"+ann {
		t.Errorf("%v, %v", by, err)
	}
}

// TestPeersOfAHost: it counts for as many as it offers where it starts SLs. What has begun goes on by what it offered then.
func TestPeersOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		train := &task.Task{Name: "pull", Type: task.RunSwarm, Prereq: task.Root, Definition: []byte("Command: true\n")}
		train.Digest = train.Sum()
		q := request()
		q.Digest = train.Digest
		h := w.assigned(q, ann)
		if got := w.guard().Ask(t.Context(), h, train); got.Decision != consent.Refused || !strings.Contains(got.Words, "counts this host for 1 peers, and it offers 3") {
			t.Errorf("one peer: %v", got)
		}
		h.Members[0].Peers = 3
		if got := w.guard().Ask(t.Context(), h, train); got.Decision != consent.Allowed {
			t.Errorf("as it offers: %v", got)
		}
		h.Members[0].Peers = 2 // as if it had been started with another profile
		if got := w.guard().Ask(t.Context(), h, train); got.Decision != consent.Allowed {
			t.Errorf("what has begun: %v", got)
		}
	})
}

// TestAHostThatIsStopped: what was ended with it does not begin again, unasked, when it is started.
func TestAHostThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
			t.Errorf("first: %v", got)
		}
		began := time.Now()
		time.Sleep(time.Minute) // virtual
		if got := w.guard().Began(h.ID, h.Epoch); got.Sub(began).Abs() > time.Second || !g.Began(h.ID, h.Epoch+1).IsZero() || !g.Began("8", h.Epoch).IsZero() {
			t.Errorf("began at %v, says it began at %v", began, got)
		}
		g = w.guard()
		if err := g.EndedAll("this host was stopped"); err != nil {
			t.Error(err)
		}
		if got := w.guard().Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "carried it out before") {
			t.Errorf("after a start: %v", got)
		}
	})
}

// TestOnce: a host carries an assignment out once in each placement that the operator has signed for, whatever SNs forget.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := w.guard()
		first := w.assigned(request(), ann)
		ask := func(epoch uint32, want string) {
			t.Helper()
			h := *first
			h.Epoch = epoch
			got := g.Ask(t.Context(), &h, pull())
			if want == "" && got.Decision != consent.Allowed || want != "" && (got.Decision != consent.Refused || !strings.Contains(got.Words, want)) {
				t.Errorf("placement %d: %v, want %q", epoch, got, want)
			}
		}
		end := func(epoch uint32) {
			t.Helper()
			if err := g.Ended("7", epoch, "exited\nwith 0"); err != nil {
				t.Fatal(err)
			}
		}
		end(1) // of what it does not know it says nothing
		ask(1, "")
		ask(1, "")
		g = w.guard() // started again
		time.Sleep(2 * time.Hour)
		ask(1, "") // the operator's SVID has ended, and what has begun goes on
		end(2)
		ask(1, "")
		end(1)
		end(1)
		ask(1, "carried it out before")
		ask(2, "")
		ask(1, "placement 1 of it has passed")
		g = w.guard()
		end(2)
		ask(2, "carried it out before")
		ask(3, "signed for 1 retries")
		if e, _ := w.journal.Find("7"); e.Words != "exited with 0" || e.EndedMS == 0 || e.By != "spiffe://a.example"+ann {
			t.Errorf("the journal has %+v", e)
		}
		again := w.assigned(request(), ann) // signed anew, at another time
		if got := g.Ask(t.Context(), again, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "another order under its ID") {
			t.Errorf("another order under the ID: %v", got)
		}
	})
}

// TestItBeginsBeforeItsExpiry: what runs goes on beyond it. What was begun and has not started, as after a restart, and a later placement do
// not begin.
func TestItBeginsBeforeItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
		time.Sleep(25 * time.Hour)
		g = w.guard()
		if got := g.Stays(t.Context(), h, pull()); got.Decision != consent.Allowed || !g.Received("7").Equal(time.Now().Add(-25*time.Hour)) || !g.Received("8").IsZero() {
			t.Errorf("what runs: %v, received at %v", got, g.Received("7"))
		}
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "has expired") {
			t.Errorf("what was begun: %v", got)
		}
		h.Epoch = 2
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "has expired") {
			t.Errorf("the next placement: %v", got)
		}
	})
}

// TestAJobGoesOnAfterItsExpiry: a host that has begun it in time begins it anew, as often as the operator has signed, until its time-out is over.
func TestAJobGoesOnAfterItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shown, q := pull(), request()
		shown.Type = task.RunJob
		shown.Digest = shown.Sum()
		q.Digest, q.Retries, q.TimeoutMS = shown.Digest, 9, 50*3600*1000
		q.ID = "8"
		never := w.assigned(q, ann)
		q.ID = "7"
		h := w.assigned(q, ann)
		asks := func(h *task.Hosted, epoch uint32, want string) {
			t.Helper()
			h.Epoch = epoch
			got := w.guard().Ask(t.Context(), h, shown)
			if want == "" && got.Decision != consent.Allowed || want != "" && (got.Decision != consent.Refused || !strings.Contains(got.Words, want)) {
				t.Errorf("placement %d: %v, want %q", epoch, got, want)
			}
		}
		asks(h, 1, "")
		time.Sleep(25 * time.Hour)
		asks(h, 2, "")
		asks(h, 3, "")
		asks(never, 2, "has expired")
		time.Sleep(26 * time.Hour)
		asks(h, 4, "has expired")
	})
}

// TestWhatRunsStays: by the journal and as the owner thinks now. What it asks for was approved or allowed once.
func TestWhatRunsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		stays := func(want string) {
			t.Helper()
			got := g.Stays(t.Context(), h, pull())
			if want == "" && got.Decision != consent.Allowed || want != "" && (got.Decision != consent.Refused || !strings.Contains(got.Words, want)) {
				t.Errorf("got %v, want %q", got, want)
			}
		}
		stays("its host does not know that it has begun it")
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Allowed {
			t.Fatal(got)
		}
		g = w.guard()
		if by, none := g.AskedBy("7"), g.AskedBy("8"); by != "spiffe://a.example"+ann || none != "" {
			t.Errorf("asked by %q and %q", by, none)
		}
		stays("")
		w.policy.Decision = consent.Asked
		stays("")
		w.policy.Verdict = consent.Verdict{Decision: consent.Refused, Sentence: "no more"}
		w.policy.keeps = &consent.Verdict{Decision: consent.Allowed}
		stays("")
		w.policy.keeps = nil
		stays("swop-0 refuses it to spiffe://a.example/swarm/swci/ann: no more")
		if e, _ := w.journal.Find("7"); e.Decision != consent.Refused || e.EndedMS != 0 {
			t.Errorf("the journal has %+v", e)
		}
		if got := g.Stays(t.Context(), h, &task.Task{Name: "pull"}); got.Decision != consent.Refused {
			t.Errorf("another task: %v", got)
		}
		again := *h
		again.Order = w.assigned(request(), bob).Order
		if got := g.Stays(t.Context(), &again, pull()); got.Decision != consent.Refused {
			t.Errorf("another order: %v", got)
		}
		if got := g.Stays(t.Context(), &task.Hosted{Request: h.Request, Epoch: 1}, pull()); got.Decision != consent.Refused {
			t.Errorf("without an order: %v", got)
		}
		h.Epoch = 2
		stays("its host does not know")
		h.Epoch = 1
		if err := g.Ended("7", 1, "ended"); err != nil {
			t.Fatal(err)
		}
		stays("its host does not know")
	})
}

// TestThePolicyDecides: until it runs, as the owner thinks now.
func TestThePolicyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g, h := w.guard(), w.assigned(request(), ann)
		for _, tt := range []struct {
			says consent.Verdict
			want consent.Answer
		}{
			{consent.Verdict{Decision: consent.Asked, Sentence: "ask"}, consent.Answer{Decision: consent.Asked, Words: "waits for approval: swarmctl approve task pull on swop-0"}},
			{consent.Verdict{Decision: consent.Refused, Sentence: "no sentence allows it"}, consent.Answer{
				Decision: consent.Refused, Words: "swop-0 refuses it to spiffe://a.example/swarm/swci/ann: no sentence allows it",
			}},
			{consent.Verdict{}, consent.Answer{Decision: consent.Refused, Words: "swop-0 refuses it to spiffe://a.example/swarm/swci/ann: "}},
			{consent.Verdict{Decision: consent.Allowed, Sentence: "Allow"}, consent.Answer{Decision: consent.Allowed}},
			{consent.Verdict{Decision: consent.Asked, Sentence: "ask"}, consent.Answer{Decision: consent.Asked, Words: "waits for approval: swarmctl approve task pull on swop-0"}}, // it was begun
			{consent.Verdict{Decision: consent.Refused, Sentence: "no"}, consent.Answer{
				Decision: consent.Refused, Words: "swop-0 refuses it to spiffe://a.example/swarm/swci/ann: no",
			}},
			{consent.Verdict{Decision: consent.Allowed, Sentence: "Allow"}, consent.Answer{Decision: consent.Allowed}},
		} {
			w.policy.Verdict = tt.says
			for range 2 {
				if got := g.Ask(t.Context(), h, pull()); got != tt.want {
					t.Errorf("%v: got %v, want %v", tt.says, got, tt.want)
				}
			}
			g = w.guard()
		}
		e, _ := w.journal.Find("7")
		if e.Decision != consent.Allowed || e.Sentence != "Allow" || e.Epoch != 1 {
			t.Errorf("the journal has %+v", e)
		}
	})
}

// TestWordsFit: what a host says of a member's state is taken by the swarm, however long a sentence is.
func TestWordsFit(t *testing.T) {
	w := newWorld(t)
	w.policy.Verdict = consent.Verdict{Decision: consent.Refused, Sentence: strings.Repeat("<é\x1b[31m\n", 4000)}
	got := w.guard().Ask(t.Context(), w.assigned(request(), ann), pull())
	raw, err := json.Marshal(got.Words)
	if err != nil || len(raw)-2 > task.MaxText || strings.ContainsAny(got.Words, "\x1b\n") || got.Decision != consent.Refused {
		t.Errorf("%d bytes: %v, %v", len(raw), got, err)
	}
}

// TestNothingBeginsThatIsNotKept: where the journal can't be written nothing begins, and after half an hour that is refused. What is refused
// is so in any case. Where the journal is the host's log says alone.
func TestNothingBeginsThatIsNotKept(t *testing.T) {
	synctest.Test(t, nothingBegins)
}

func nothingBegins(t *testing.T) {
	w := newWorld(t)
	g, runs := w.guard(), w.assigned(request(), ann)
	if got := g.Ask(t.Context(), runs, pull()); got.Decision != consent.Allowed {
		t.Fatal(got)
	}
	if err := w.journal.Close(); err != nil {
		t.Fatal(err)
	}
	q := request()
	q.ID = "8"
	h := w.assigned(q, ann)
	for range 30 * 60 {
		if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Asked || got.Words != "waits: this host can't write to its disk what it decides: see its SWOP's log" {
			t.Fatalf("got %v", got)
		}
		time.Sleep(time.Second)
	}
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "waited 30m0s in vain") {
		t.Errorf("after half an hour: %v", got)
	}
	if n := strings.Count(w.log.String(), "write journal of assignments: "); n != 1 {
		t.Errorf("the log has it %d times:\n%s", n, w.log)
	}
	x := refusal("no")
	x.Part.Assignment = "8"
	h.Approvals = []task.Approval{w.says(bob, "RefuseTask", x)}
	if got := g.Ask(t.Context(), h, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "refused by spiffe://a.example"+bob) {
		t.Errorf("an operator's refusal: %v", got)
	}
	w.policy.Verdict = later(false)
	q.ID = "9"
	h = w.assigned(q, ann)
	for range 10 {
		if got := g.Ask(t.Context(), h, pull()); got.Words != "waits: the engine does not say" {
			t.Errorf("what nobody can say: %v", got)
		}
		time.Sleep(time.Minute)
	}
	if n := strings.Count(w.log.String(), "was received can't be kept"); n != 1 {
		t.Errorf("the log has it %d times:\n%s", n, w.log)
	}
	w.policy.Verdict = consent.Verdict{Decision: consent.Refused, Sentence: "no more"}
	if got := g.Stays(t.Context(), runs, pull()); got.Decision != consent.Refused || !strings.Contains(got.Words, "no more") {
		t.Errorf("what runs, and is refused now: %v", got)
	}
	w.journal = nil
	if _, err := consent.OpenJournal(filepath.Join(w.dir, "gone"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a journal in no directory is opened")
	}
}

// FuzzOrder: whatever bytes an SN shows, only what an operator has signed is proven, as it was signed.
func FuzzOrder(f *testing.F) {
	w := &world{svids: map[string]*rpctest.Source{}}
	var err error
	if w.authority, err = rpctest.NewAuthority("a.example"); err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{ann, "/swarm/swop/" + host} {
		if w.svids[path], err = w.authority.Issue(path, time.Hour); err != nil {
			f.Fatal(err)
		}
	}
	domains, err := w.authority.Domains()
	if err != nil {
		f.Fatal(err)
	}
	v := consent.Verifier{Source: w.svids["/swarm/swop/"+host], Domains: domains, Node: host, Taskrunner: "tr"}
	svid, err := w.svids[ann].GetX509SVID()
	if err != nil {
		f.Fatal(err)
	}
	honest := task.Hosted{Request: request(), Epoch: 1, Members: []task.HostedMember{{Group: "peers", Peers: 1}}}
	raw, err := written(asking(honest.Request))
	if err != nil {
		f.Fatal(err)
	}
	honest.Order = &ledger.Order{Method: "AssignTask", Request: raw, AskedMS: 1, Nonce: []byte{1}, Chain: identity.RawChain(svid)}
	signed := message(honest.Order, swarmID)
	if honest.Order.Signature, err = identity.SignWithSVID(svid, signed); err != nil {
		f.Fatal(err)
	}
	if _, err := v.Verify(&honest, swarmID, time.Now()); err != nil {
		f.Fatal(err)
	}
	seed, err := json.Marshal(honest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, shown []byte) {
		var h task.Hosted
		if json.Unmarshal(shown, &h) != nil {
			return
		}
		if _, err := v.Verify(&h, swarmID, time.Now()); err != nil {
			return
		}
		same := h.Request
		same.By = honest.By
		if !bytes.Equal(message(h.Order, swarmID), signed) || !reflect.DeepEqual(same, honest.Request) || h.Epoch == 0 || h.Epoch > 2 {
			t.Errorf("proven: %s", shown)
		}
	})
}

// TestJobsBesideAnSL are signed by that SL, and by nobody else; an SL signs nothing else.
func TestJobsBesideAnSL(t *testing.T) {
	const sl = "/swarm/sl/sl-1"
	for _, tt := range []struct{ name, by, beside, want string }{
		{"by itself", sl, "sl-1", ""},
		{"by those who share its identity", "/swarm/sl", "sl-1", ""},
		{"by another", "/swarm/sl/sl-2", "sl-1", "it is a job beside SL \"sl-1\", and spiffe://a.example/swarm/sl/sl-2 has signed it"},
		{"by an operator", ann, "sl-1", "may not do this (allowed: sl)"},
		{"by a host", "/swarm/swop/swop-1", "sl-1", "proves nothing"},
		{"beside nobody", sl, "", "proves nothing"},
	} {
		w := newWorld(t)
		q := request()
		q.Beside = tt.beside
		v := w.verifier()
		by, err := v.Verify(w.assigned(q, tt.by), swarmID, time.Now())
		if tt.want == "" && (err != nil || by.String() != "spiffe://a.example"+tt.by) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %s, %v", tt.name, by, err)
		}
	}
}
