package consent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/text"
)

// Policy is what the host's owner thinks of assignments.
type Policy interface {
	// Decide judges a task, whose definition is the one that was asked for, by who asked, a SPIFFE ID. It may look at the host, and is asked
	// about several assignments at a time. image is what the task runs or fetches; nil: it has none.
	Decide(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) Verdict
	// Keeps is Decide for a task that runs, and has what it was given.
	Keeps(ctx context.Context, by string, h *task.Hosted, t *task.Task, image *policy.Image) Verdict
	// Hopes says what Decide would let through at best, whatever the image: nobody is asked for the image of what is refused. It looks at nothing.
	Hopes(by string, h *task.Hosted, t *task.Task) Verdict
	// Approves returns why somebody may not approve or refuse what somebody has asked for; nil if it may. Both are SPIFFE IDs.
	Approves(approver, submitter string) error
}

// Verdict is what a policy says.
type Verdict struct {
	Decision Decision // Allowed, Asked, Refused or Later
	Sentence string   // which of the owner's sentences says so, or why none does; Later: what nobody can say now
	Detail   string   // what the host's log has besides, and nobody else gets to know
	// Lasts says of Later that it does not pass before somebody corrects something: an assignment that has yet to begin is refused.
	Lasts bool
	// Soon is what nobody can say of the image now, though somebody may soon: what was decided, Asked or Refused, counts once it was waited for in vain.
	Soon string
}

// Answer is what a guard says.
type Answer struct {
	Decision Decision // Allowed, Asked for not yet, or Refused; of what runs Later for nobody can say
	// Words are one line for the member's state, of at most task.MaxText bytes as it is encoded; empty if it is allowed.
	Words string
	// Image is the one that was decided on, and that alone may be run or fetched; nil: the task has none.
	Image *policy.Image
}

// Config is what a Guard works with.
type Config struct {
	Verifier

	SwarmID func() string
	Policy  Policy
	// Image finds the image that a task runs or fetches, without fetching anything. It is Allowed to be judged then, and nil for a task that has
	// none; Refused: the host can't carry the task out; Later: nobody can say now which one it is. It is asked before the policy decides, for
	// what an operator has signed only. Nil: no task has an image.
	Image   func(ctx context.Context, t *task.Task) (*policy.Image, Verdict)
	Journal *Journal
	Log     *slog.Logger
}

// Guard decides which assignments a host carries out. It is safe for concurrent use.
type Guard struct {
	cfg Config

	mu    sync.Mutex        // of decisions: what they rest on is found without it, and may take long
	told  map[string]string // by assignment: which words do not count, as it was logged last; by "received " before that, why it is not kept
	later waiting           // by assignment; by "given to " and "stays " before that, what it is to have of the host, and what runs of it
}

const (
	maxTold  = 256 // assignments of which is remembered what was logged
	maxTurns = 3   // in which an assignment is judged that changes meanwhile
)

// New returns a guard.
func New(cfg Config) *Guard {
	return &Guard{cfg: cfg, told: map[string]string{}, later: waiting{}}
}

// Ask says whether the host may begin with an assignment, or go on with it. It is to be asked before anything is prepared, after each
// restart, and again whenever the host sees the assignment while the answer is not yet. t is its task with the definition that the SN shows.
// What is allowed stands in the journal as begun, and is not allowed again once it has ended: see [Guard.Ended]. Of several members one may have
// ended before the others, which [Guard.HasEnded] knows. What has begun and has yet to start, as after a restart, is judged anew. It waits for the
// disk.
func (g *Guard) Ask(ctx context.Context, h *task.Hosted, t *task.Task) Answer {
	for range maxTurns {
		found, v, err := g.judge(ctx, h, t)
		if ctx.Err() != nil { // what was found in this time is no matter of the host's
			return Answer{Decision: Asked, Words: "waits: its host was not asked to the end"}
		}
		if err != nil { // nothing is journaled of what proves nothing
			return Answer{Decision: Refused, Words: line(err.Error())}
		}
		if answer, done := g.settle(&found, v, h, t); done {
			return answer
		}
	}
	return Answer{Decision: Asked, Words: "waits: what was decided on it changes while it is judged"}
}

// judge has the policy judge an assignment, and returns what was judged. Others are not kept waiting meanwhile: nothing is decided.
func (g *Guard) judge(ctx context.Context, h *task.Hosted, t *task.Task) (Entry, Verdict, error) {
	g.mu.Lock()
	now := time.Now()
	e, err := g.due(h, t, now)
	before := g.later[h.ID]
	g.mu.Unlock()
	switch {
	case err != nil:
		return e, Verdict{}, err
	case before.epoch == h.Epoch && now.Before(before.until):
		if !e.knowsImage() {
			e.Image = before.image
		}
		return e, before.Verdict, nil
	}
	if !e.knowsImage() && g.cfg.Image != nil {
		if v := g.cfg.Policy.Hopes(e.By, h, t); v.Decision == Refused {
			return e, v, nil
		}
		// The image is found once for an assignment: whatever its name stands for later, and however long somebody is asked, this one is meant.
		image, v := g.cfg.Image(ctx, t)
		switch v.Decision {
		case Later:
			return e, v, nil
		case Refused:
			g.cfg.Log.Info("an assignment can't be carried out", "assignment", h.ID, "task", h.Task, "by", e.By, "err", text.Line(v.Sentence), "detail", text.Line(v.Detail))
			return e, v, errors.New(v.Sentence)
		case Allowed, Asked, Approved:
			e.Image = image
		}
	}
	return e, g.cfg.Policy.Decide(ctx, e.By, h, t, e.Image), nil
}

// settle decides by what the policy has said of what was found, unless something else is to be judged by now.
func (g *Guard) settle(found *Entry, v Verdict, h *task.Hosted, t *task.Task) (a Answer, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	e, err := g.due(h, t, now)
	if err != nil {
		return Answer{Decision: Refused, Words: line(err.Error())}, true
	}
	if e.By != found.By || e.knowsImage() && !reflect.DeepEqual(e.Image, found.Image) {
		return Answer{}, false
	}
	if !e.knowsImage() {
		e.Image = found.Image
	}
	said := g.said(&e, h, now)
	if !said.refuses() {
		if a, waits := g.postpone(h, h.ID, v, e.Image, now); waits {
			if a.Decision == Asked {
				g.receive(e, now)
			}
			return a, true
		}
	}
	next, words := g.decide(e, v, said, h, t, now)
	if before, known := g.cfg.Journal.Find(h.ID); !known || next != before {
		if err := g.keep(next, v.Detail, h, now); err != nil {
			a, _ := g.postpone(h, h.ID, unkept(err), e.Image, now)
			waits := g.later[h.ID]
			waits.until = now // a disk may be tried at any time
			g.later[h.ID] = waits
			return a, true
		}
	}
	if v.timeout() == 0 {
		delete(g.later, h.ID)
	}
	return next.answer(words), true
}

// receive has the journal know that an assignment was received that has to wait: who has asked for it is proven, and when.
func (g *Guard) receive(e Entry, now time.Time) {
	if _, known := g.cfg.Journal.Find(e.Assignment); known {
		return
	}
	e.Image = nil // it is looked for again
	e.decided(Later, "", "", now)
	if err := g.cfg.Journal.put(e, now.UnixMilli()); err != nil && g.news("received "+e.Assignment, err.Error()) {
		g.cfg.Log.Warn("that an assignment was received can't be kept", "assignment", e.Assignment, "err", err)
	}
}

// keep has the journal hold what was decided, unless a restarted host would come to the same without it: a refusal by the policy alone.
// So whoever is refused can't fill it. A refusal counts also if it can't be kept.
func (g *Guard) keep(e Entry, detail string, h *task.Hosted, now time.Time) error {
	if e.Image != nil && e.Image.Passes { // nobody asks for it any more
		image := *e.Image
		image.Passes = false
		e.Image = &image
	}
	var err error
	if e.Decision != Refused || e.Approver != "" || e.BeganMS > 0 {
		err = g.cfg.Journal.put(e, now.UnixMilli())
	}
	switch {
	case err != nil && e.Decision != Refused:
		return err
	case err != nil:
		g.cfg.Log.Error("that an assignment is refused can't be kept", "assignment", h.ID, "err", err)
	}
	g.cfg.Log.Info("decided on an assignment", "assignment", h.ID, "task", h.Task, "digest", h.Digest, "by", e.By, "decision", string(e.Decision),
		"sentence", e.Sentence, "detail", text.Line(detail), "approver", e.Approver, "epoch", h.Epoch, "image", e.imagesListed())
	return nil
}

func (e *Entry) answer(words string) Answer {
	switch e.Decision {
	case Allowed, Approved:
		return Answer{Decision: Allowed, Image: e.Image}
	case Asked, Refused, Later:
	}
	return Answer{Decision: e.Decision, Words: line(words)}
}

// due returns what stands in the journal of an assignment, or would if it is seen for the first time. An error is why it is not to be decided.
func (g *Guard) due(h *task.Hosted, t *task.Task, now time.Time) (Entry, error) {
	e, known := g.cfg.Journal.Find(h.ID)
	asked, err := g.received(&e, known, h, now)
	if err != nil {
		return e, err
	}
	began := e.running() && e.Epoch == h.Epoch
	switch {
	case began:
	case h.Epoch < e.Epoch:
		return e, fmt.Errorf("placement %d of it has passed on this host: %d was begun", h.Epoch, e.Epoch)
	case h.Epoch == e.Epoch:
		return e, errors.New("this host has carried it out before, and does nothing twice: assign the task again, under a new ID")
	}
	if err := sameTask(&asked, h, t); err != nil {
		return e, err
	}
	if part := onePart(h, t); began && e.Part > 0 && part != e.Part {
		return e, errors.New("the SN has this host be another member of it than the one that it has begun")
	}
	if err := g.cfg.holdPeers(h, t); err != nil && !began {
		return e, err
	}
	return e, inTime(&e, &asked, t, now)
}

// inTime holds an order to its expiry. A job that this host has begun may be placed anew after that, within its time-out.
func inTime(e *Entry, asked *task.Request, t *task.Task, now time.Time) error {
	ms := now.UnixMilli()
	if t.Type == task.RunJob && e.Epoch > 0 && asked.ExpiresMS > 0 && ms >= asked.ExpiresMS && ms-e.ReceivedMS < asked.TimeoutMS {
		return nil
	}
	return timely(asked.ExpiresMS, now)
}

// received holds an assignment to its order, which is proven when it is seen for the first time. It returns what was asked.
func (g *Guard) received(e *Entry, known bool, h *task.Hosted, now time.Time) (task.Request, error) {
	if err := formed(h); err != nil {
		return task.Request{}, err
	}
	sum := sumOf(h.Order, g.cfg.SwarmID())
	switch {
	case known && e.Order != sum:
		return task.Request{}, errors.New("this host has received another order under its ID: assign the task under a new ID")
	case known:
		return g.cfg.held(h)
	}
	by, err := g.cfg.Verify(h, g.cfg.SwarmID(), now)
	if err != nil {
		return task.Request{}, err
	}
	*e = Entry{
		Assignment: h.ID, Order: sum, By: by.String(), Task: h.Task, Digest: h.Digest, Taskrunner: h.Taskrunner,
		ReceivedMS: now.UnixMilli(), ExpiresMS: h.ExpiresMS,
	}
	return g.cfg.held(h)
}

// sameTask holds the definition that an SN shows to the digest that was signed, and the host's parts to what can be of such a task.
func sameTask(asked *task.Request, h *task.Hosted, t *task.Task) error {
	switch {
	case t == nil:
		return fmt.Errorf("the SN shows no task %.128s", asked.Task)
	case t.Name != asked.Task || t.Sum() != asked.Digest:
		return fmt.Errorf("the SN shows another task %.128s than the operator signed: its digest is %.12s…, not %.12s…", asked.Task, t.Sum(), asked.Digest)
	}
	return holdParts(asked, h.Members, t.Type)
}

// said is what operators have said. A word stands once it was taken.
func (g *Guard) said(e *Entry, h *task.Hosted, now time.Time) heard {
	if e.Approver != "" {
		return heard{decision: e.Decision, by: e.Approver, reason: e.Sentence}
	}
	said := g.hear(e, h, now)
	if g.news(h.ID, said.ignored) {
		g.cfg.Log.Warn("an operator's word on an assignment does not count", "assignment", h.ID, "err", text.Line(said.ignored))
	}
	return said
}

// decide returns what is to stand in the journal by what the policy and operators have said, and in words why the assignment is not allowed.
func (g *Guard) decide(e Entry, v Verdict, said heard, h *task.Hosted, t *task.Task, now time.Time) (Entry, string) {
	switch {
	case said.refuses():
		e.decided(Refused, said.by, said.reason, now)
		return e, strings.TrimSuffix(fmt.Sprintf("refused by %s: %s", said.by, said.reason), ": ")
	case v.Decision == Allowed:
		e.decided(Allowed, "", v.Sentence, now)
	case v.Decision == Asked && said.by != "":
		e.decided(Approved, said.by, v.Sentence, now)
	case v.Decision == Asked:
		e.decided(Asked, "", v.Sentence, now)
		words := []string{fmt.Sprintf("waits for approval: swarmctl approve task %s on %s", h.Task, g.cfg.Node), membersText(h, t), e.imageText(), said.ignored}
		return e, strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), "; ")
	default:
		e.decided(Refused, "", v.Sentence, now)
		return e, g.refusal(&e)
	}
	if !e.running() || e.Epoch != h.Epoch {
		e.begin(h.Epoch, onePart(h, t), now)
	}
	return e, ""
}

// news reports whether words on something are to be logged: they are others than before. key is what they are about.
func (g *Guard) news(key, words string) bool {
	if g.told[key] == words {
		return false
	}
	for other := range g.told {
		if len(g.told) < maxTold {
			break
		}
		delete(g.told, other)
	}
	g.told[key] = words
	return words != ""
}

// Ended says that nothing of an assignment runs any more on this host in an epoch, in words for the journal: it is not allowed in that epoch
// again. Of what was not begun it says nothing.
func (g *Guard) Ended(assignment string, epoch uint32, words string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, known := g.cfg.Journal.Find(assignment)
	if !known || e.Epoch != epoch || !e.running() {
		return nil
	}
	now := time.Now().UnixMilli()
	e.EndedMS, e.Words = now, text.Line(words)
	return g.cfg.Journal.put(e, now)
}

// Began is when an epoch of an assignment was begun on this host, across restarts; zero: it was not.
func (g *Guard) Began(assignment string, epoch uint32) time.Time {
	e, _ := g.cfg.Journal.Find(assignment)
	if e.BeganMS == 0 || e.Epoch != epoch {
		return time.Time{}
	}
	return time.UnixMilli(e.BeganMS)
}

// EndedAll is Ended for all that has begun: the host is stopped, and has ended it.
func (g *Guard) EndedAll(words string) error {
	var errs []error
	for _, e := range g.cfg.Journal.begun() {
		errs = append(errs, g.Ended(e.Assignment, e.Epoch, words))
	}
	return errors.Join(errs...)
}

// line makes a text fit into the state of a member.
func line(s string) string {
	return state.ClipWords(text.Line(strings.ToValidUTF8(s, "?")), task.MaxText)
}
