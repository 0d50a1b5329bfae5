package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/merge"
)

// What a program is told.
const (
	envDir      = "CHAOS_DIR"      // the folder of order and events
	envContract = "CHAOS_CONTRACT" // tells the program of one training from that of the next
	envPace     = "CHAOS_PACE"     // time between two syncs
	envFloats   = "CHAOS_FLOATS"   // of the model
)

// minPeers of the contracts.
const minPeers = 2

// order is what the driver wants of all programs: a file, which outlives both.
type order struct {
	Contract string `json:"contract"`
	Stop     bool   `json:"stop"` // training ends with the next round
}

const orderFile = "order.json"

func (o order) write(dir string) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return atomicfile.ReplaceUnsynced(filepath.Join(dir, orderFile), raw, 0o600)
}

func readOrder(dir string) (o order, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, orderFile))
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(raw, &o)
}

// event is a line of what a program tells the driver. It is on file before what it tells of goes on.
type event struct {
	At          int64  `json:"at_ms"`
	What        string `json:"what"` // offer, took, skip, wrong, end
	Contract    string `json:"contract"`
	Session     string `json:"session"`
	Round       uint64 `json:"round"`            // of offer: its base; 0: none
	Digest      string `json:"digest,omitempty"` // of the base, or of what was taken
	Contributed bool   `json:"contributed,omitempty"`
	Final       bool   `json:"final,omitempty"`
	Detail      string `json:"detail,omitempty"`
}

func eventFile(dir, peer string) string { return filepath.Join(dir, peer+".events") }

// modelFile is where the first who has taken a model leaves its bytes.
func modelFile(dir, digest string) string { return filepath.Join(dir, "models", digest) }

// Program is the main function of the program that nodes train: the driver's own binary, which they take for a Python. It
// returns false if it was not started as one.
func Program(args []string, stdout, stderr io.Writer) (code int, is bool) {
	switch {
	case len(args) == 3 && args[1] == "-c":
		fmt.Fprintln(stdout, "True") // It has the package that it is asked for.
		return 0, true
	case len(args) == 3 && args[1] == "-u":
		if err := train(); err != nil {
			fmt.Fprintln(stderr, err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// trainer is the program of one peer.
type trainer struct {
	dir, peer string
	pace      time.Duration
	layout    *merge.Layout
	events    *os.File
	order     order
	session   *program.Session

	round  uint64 // of base
	base   []byte // nil: none yet
	digest string
}

func train() (err error) {
	t := &trainer{dir: os.Getenv(envDir), peer: os.Getenv("SWARM_PEER")}
	floats, err := strconv.Atoi(os.Getenv(envFloats))
	if err != nil {
		return fmt.Errorf("%s: %w", envFloats, err)
	}
	if t.pace, err = time.ParseDuration(os.Getenv(envPace)); err != nil {
		return fmt.Errorf("%s: %w", envPace, err)
	}
	if t.layout, err = layoutOf(floats); err != nil {
		return err
	}
	if t.events, err = os.OpenFile(eventFile(t.dir, t.peer), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.events.Close()) }()
	if t.order, err = readOrder(t.dir); err != nil {
		return err
	}
	ctx := context.Background()
	t.session, err = program.Open(ctx, os.Getenv(wire.EnvBridgeDir), program.OpenOptions{
		Contract: t.order.Contract, MinPeers: minPeers, SyncFrequency: 1, Weight: int(weightOf(t.peer)), Client: "chaos",
		Tensors: []wire.Tensor{{Name: tensor, DType: "float32", Shape: []int64{int64(floats)}}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.session.Release()) }()
	return t.run(ctx)
}

func (t *trainer) run(ctx context.Context) error {
	for over := false; !over; {
		if err := t.offer(false); err != nil {
			return err
		}
		res, err := t.session.Sync(ctx)
		if err != nil {
			return err
		}
		if err := t.take(res, false); err != nil {
			return err
		}
		<-time.After(t.pace)
		now, err := readOrder(t.dir)
		if err != nil {
			return err
		}
		over = res.TrainingOver || now.Stop || now.Contract != t.order.Contract
	}
	if err := t.offer(true); err != nil {
		return err
	}
	res, err := t.session.Close(ctx)
	if err != nil {
		return err
	}
	if err := t.take(res, true); err != nil {
		return err
	}
	return t.tell(event{What: "end", Round: res.Round, Digest: res.Digest})
}

func (t *trainer) offer(final bool) error {
	if err := t.tell(event{What: "offer", Round: t.round, Digest: t.digest, Final: final}); err != nil {
		return err
	}
	offer(t.session.Local(), t.peer, t.round, t.base)
	return nil
}

// take copies the model and holds it to its digest.
func (t *trainer) take(res program.Result, final bool) error {
	if res.Skipped {
		return t.tell(event{What: "skip", Round: res.Round})
	}
	model := append([]byte(nil), t.session.Committed()...)
	t.round, t.base, t.digest = res.Round, model, digestOf(t.layout, model)
	if t.digest != res.Digest {
		err := fmt.Errorf("the slot of round %d holds a model with the digest %s, the node says %s", res.Round, t.digest, res.Digest)
		return errors.Join(err, t.tell(event{What: "wrong", Round: res.Round, Digest: t.digest, Detail: err.Error()}))
	}
	if path := modelFile(t.dir, t.digest); !exists(path) {
		if err := atomicfile.ReplaceUnsynced(path, model, 0o600); err != nil {
			return err
		}
	}
	return t.tell(event{What: "took", Round: res.Round, Digest: t.digest, Contributed: res.Contributed, Final: final})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (t *trainer) tell(e event) error {
	e.At, e.Contract, e.Session = time.Now().UnixMilli(), t.order.Contract, t.session.Info.Session
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = t.events.Write(append(line, '\n'))
	return err
}
