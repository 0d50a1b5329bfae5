package nodetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/node/nodetest/slots"
)

// ripple makes the elements of a model differ, so that swapped leaves show.
const ripple = 61

// longPoll is how long the bridge lets one call of a program wait.
const longPoll = 20 * time.Second

// Program is what one SL's stand-in for an ML program does. Its model is one float32 tensor w; element k starts as
// Init + k%61 and every step of training adds Delta to all elements.
type Program struct {
	Contract string
	MinPeers int
	Weight   int
	Mode     string        // check-in mode at the end
	Steps    int           // steps of training after the first merge; each ends with a Sync
	Think    time.Duration // virtual time of one step
	Begin    time.Duration // virtual time before its first Sync
	Init     float32
	Delta    float32
	Last     float32 // what is added after the last merge, before Close
	Elements int
	Method   string // any spelling; default mean
	// Learn makes what is offered after a step from the model before it, in place of Delta.
	Learn func(step int, model []byte) []byte
	Fail  int // step at which the program gives up; 0: none
}

func (p Program) layout() (*merge.Layout, error) {
	return merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{int64(p.Elements)}}})
}

// Handed is one model that a program was given.
type Handed struct {
	Seq         uint64
	Round       uint64
	Digest      string
	Contributed bool
	Over        bool
	Skipped     bool // there was no new model: it went on with its own weights
}

// last is what the program has handed in, or was about to, last.
func (r *Run) last() contribution {
	if r == nil {
		return contribution{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.offers) == 0 {
		return contribution{run: r}
	}
	return contribution{r, r.offers[len(r.offers)-1].seq}
}

// offer is what a program wrote into its slot.
type offered struct {
	seq    uint64 // 0: at the close
	weight uint32
	model  []byte
}

// Run is one run of a program. Its methods are safe for concurrent use.
type Run struct {
	sl      *sl
	Program Program
	Peer    string
	done    chan struct{}

	mu      sync.Mutex // guards what follows
	session string
	offers  []offered
	handed  []Handed
	waits   []string
	final   []byte
	err     error
	ended   bool
}

func newRun(n *sl, p Program) *Run {
	return &Run{sl: n, Program: p, Peer: n.id.name, done: make(chan struct{})}
}

func (r *Run) finish(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended, r.err = true, err
		close(r.done)
	}
}

func (r *Run) isDone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Done is closed when the program has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Err says why the program ended; nil while it runs, and if it has the final model.
func (r *Run) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Handed returns all models that the program was given, in order.
func (r *Run) Handed() []Handed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Handed(nil), r.handed...)
}

// Waits returns the reasons that the program was shown while it waited, without repetitions.
func (r *Run) Waits() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.waits...)
}

// Final returns element 0 of the final model.
func (r *Run) Final() float32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.final == nil {
		return float32(math.NaN())
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(r.final))
}

// Model returns a copy of the final model; nil if there is none.
func (r *Run) Model() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]byte(nil), r.final...)
}

// train is the program.
func (r *Run) train(ctx context.Context, h bridge.Handler) error {
	p := r.Program
	// A program takes a moment to start, each another one, so that they open their sessions in the same order each time.
	if err := sleep(ctx, time.Duration(1+r.sl.id.index)*time.Millisecond); err != nil {
		return err
	}
	layout, err := p.layout()
	if err != nil {
		return err
	}
	opened, err := h.Open(ctx, wire.OpenRequest{
		Contract: p.Contract, MinPeers: p.MinPeers, SyncFrequency: 4, CheckinMode: p.Mode, Weight: p.Weight, Method: p.Method,
	}, layout)
	if err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	r.sl.mu.Lock()
	files := r.sl.slots
	r.sl.mu.Unlock()
	r.mu.Lock()
	r.session = opened.Session
	r.mu.Unlock()

	if err := sleep(ctx, p.Begin); err != nil {
		return err
	}
	model := encode(p.Elements, func(k int) float32 { return p.Init + float32(k%ripple) })
	over := false
	seq := uint64(0)
	for ; seq <= uint64(p.Steps) && !over; seq++ { //nolint:gosec // small
		if seq > 0 {
			if err := sleep(ctx, p.Think); err != nil {
				return err
			}
			if int(seq) == p.Fail { //nolint:gosec // small
				return errors.New("the program gave up")
			}
			if model = add(model, p.Delta); p.Learn != nil {
				model = p.Learn(int(seq), model) //nolint:gosec // small
			}
		}
		if err := r.write(files, seq+1, model); err != nil {
			return err
		}
		res, err := r.sync(ctx, h, seq+1)
		if err != nil {
			return err
		}
		if res.Skipped {
			r.skipped(seq+1, res)
			continue
		}
		if model, err = r.take(files, seq+1, res); err != nil {
			return err
		}
		over = res.TrainingOver
	}
	if !over {
		model = add(model, p.Last)
		if err := r.write(files, 0, model); err != nil {
			return err
		}
	}
	res, err := r.poll(ctx, func(ctx context.Context) (wire.SyncResponse, error) {
		return h.Close(ctx, wire.CloseRequest{Session: opened.Session, Seq: seq, Mode: p.Mode})
	})
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	model, err = r.take(files, 0, res)
	r.mu.Lock()
	r.final = model
	r.mu.Unlock()
	return err
}

// write puts a model into the local slot.
func (r *Run) write(files *slots.Slots, seq uint64, model []byte) error {
	r.mu.Lock()
	r.offers = append(r.offers, offered{seq: seq, weight: uint32(r.Program.Weight), model: model}) //nolint:gosec // small
	r.mu.Unlock()
	_, err := files.Local().WriteAt(model, 0)
	return err
}

func (r *Run) sync(ctx context.Context, h bridge.Handler, seq uint64) (wire.SyncResponse, error) {
	res, err := r.poll(ctx, func(ctx context.Context) (wire.SyncResponse, error) {
		return h.Sync(ctx, wire.SyncRequest{Session: r.session, Seq: seq, Weight: r.Program.Weight})
	})
	if err != nil {
		return res, fmt.Errorf("sync %d: %w", seq, err)
	}
	return res, nil
}

// poll repeats a call until it is answered.
func (r *Run) poll(ctx context.Context, call func(context.Context) (wire.SyncResponse, error)) (wire.SyncResponse, error) {
	for {
		callCtx, cancel := context.WithTimeout(ctx, longPoll)
		res, err := call(callCtx)
		cancel()
		pending, ok := errors.AsType[*bridge.PendingError](err)
		if !ok || ctx.Err() != nil {
			return res, err
		}
		r.mu.Lock()
		if n := len(r.waits); n == 0 || r.waits[n-1] != pending.Waiting {
			r.waits = append(r.waits, pending.Waiting)
		}
		r.mu.Unlock()
	}
}

// skipped notes that a Sync was answered without a model.
func (r *Run) skipped(seq uint64, res wire.SyncResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed = append(r.handed, Handed{Seq: seq, Round: res.Round, Digest: res.Digest, Skipped: true})
}

// take reads the slot that an answer names and holds it to the digest.
func (r *Run) take(files *slots.Slots, seq uint64, res wire.SyncResponse) ([]byte, error) {
	f := files.File(res.Slot)
	if f == nil {
		return nil, fmt.Errorf("sync %d: no slot %q", seq, res.Slot)
	}
	model := make([]byte, r.Program.Elements*4)
	if _, err := f.ReadAt(model, 0); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed = append(r.handed, Handed{Seq: seq, Round: res.Round, Digest: res.Digest, Contributed: res.Contributed, Over: res.TrainingOver})
	layout, err := r.Program.layout()
	if err != nil {
		return nil, err
	}
	if got := digestOf(layout, model); got != res.Digest {
		return nil, fmt.Errorf("sync %d, round %d: slot %s has digest %.12s, committed is %.12s", seq, res.Round, res.Slot, got, res.Digest)
	}
	return model, nil
}

func encode(n int, value func(k int) float32) []byte {
	b := make([]byte, 0, 4*n)
	for k := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(value(k)))
	}
	return b
}

func add(model []byte, delta float32) []byte {
	return encode(len(model)/4, func(k int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(model[4*k:])) + delta
	})
}

func digestOf(layout *merge.Layout, model []byte) string {
	leaves := make([]merge.Digest, layout.Leaves())
	for i := range leaves {
		at := layout.LeafOffset(i)
		leaves[i] = merge.Sum(model[at : at+int64(layout.LeafLen(i))])
	}
	return merge.Combine(leaves).String()
}
