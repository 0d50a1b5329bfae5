package track

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// Names in a directory of event files. Those of nodes have no "+" in them and begin with no ".".
const (
	markFile = "swarmctl+track.json" // which training it is about
	lockFile = ".swarmctl-track.lock"
	swarmDir = "swarm"
	maxMark  = 4 << 10
)

// mark says which training a directory is about.
type mark struct {
	Swarm    string `json:"swarm"`
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
}

// Board is a directory of event files for TensorBoard: swarm, and one for each peer.
type Board struct {
	dir  string
	say  func(string)
	lock *filelock.Lock

	base string // of the run: dir, or one in it for runs after a reset
	dirs map[string]*tensorboard.Dir
}

// OpenBoard makes a directory, if there is none, and holds it for this process. The caller closes it.
func OpenBoard(dir string, say func(string)) (*Board, error) {
	const hint = "give a directory that you may write to, such as --tensorboard runs/study"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.New(exit.Failed, hint, "--tensorboard: %w", err)
	}
	lock, err := filelock.Take(filepath.Join(dir, lockFile))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, exit.New(exit.Conflict, "end that one, or give another directory", "another swarmctl writes into %s", dir)
	}
	if err != nil {
		return nil, exit.New(exit.Failed, hint, "--tensorboard: %w", err)
	}
	return &Board{dir: dir, say: say, lock: lock}, nil
}

var _ Sink = (*Board)(nil)

// String implements Sink.
func (b *Board) String() string { return "TensorBoard's directory " + b.dir }

// Dir is where the run's event files are; empty before Open.
func (b *Board) Dir() string { return b.base }

// Close ends all files.
func (b *Board) Close() error {
	return errors.Join(b.end(), b.lock.Close())
}

func (b *Board) end() (err error) {
	for _, d := range b.dirs {
		err = errors.Join(err, d.Close())
	}
	b.dirs = map[string]*tensorboard.Dir{}
	return err
}

// Open implements Sink.
func (b *Board) Open(_ context.Context, s *State) (after uint64, err error) {
	if err := b.end(); err != nil {
		return 0, b.failed(err)
	}
	if b.base, err = b.place(mark{s.Swarm, s.Contract, s.Run}); err != nil {
		return 0, err
	}
	swarm, err := b.of(swarmDir)
	if err != nil {
		return 0, err
	}
	if after = swarm.Last(); after > 0 {
		b.say(fmt.Sprintf("TensorBoard: %s goes on behind round %d", b.base, after))
	} else {
		b.say(fmt.Sprintf("TensorBoard: %s begins; look at it with: tensorboard --logdir %s", b.base, b.dir))
	}
	return after, nil
}

// place finds the directory of a run, or marks one as its own.
func (b *Board) place(own mark) (string, error) {
	for _, base := range []string{b.dir, filepath.Join(b.dir, fmt.Sprintf("run+%d", own.Run))} {
		path := filepath.Join(base, markFile)
		raw, err := readBounded(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(base, 0o755); err != nil {
				return "", b.failed(err)
			}
			if raw, err = json.Marshal(own); err == nil {
				err = atomicfile.Replace(path, append(raw, '\n'), 0o644)
			}
			if err != nil {
				return "", b.failed(err)
			}
			return base, nil
		}
		if err != nil {
			return "", b.failed(err)
		}
		var has mark
		if err := json.Unmarshal(raw, &has); err != nil || has.Contract == "" {
			return "", exit.New(exit.Conflict, "give another directory", "%s is damaged: it does not say which training it is of", path)
		}
		if has == own {
			return base, nil
		}
		if has.Swarm != own.Swarm || has.Contract != own.Contract {
			return "", exit.New(exit.Conflict, "give another directory", "%s has the curves of contract %s of swarm %.80s", base, has.Contract, has.Swarm)
		}
	}
	return "", exit.New(exit.Conflict, "give another directory", "%s has the curves of other runs", b.dir)
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxMark {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", path, info.Size(), maxMark)
	}
	return os.ReadFile(path)
}

// of returns the event files under a name.
func (b *Board) of(name string) (*tensorboard.Dir, error) {
	if d := b.dirs[name]; d != nil {
		return d, nil
	}
	d, err := tensorboard.OpenDir(filepath.Join(b.base, name))
	if err != nil {
		return nil, b.failed(err)
	}
	b.dirs[name] = d
	return d, nil
}

func (b *Board) failed(err error) error {
	return exit.New(exit.Failed, "make room, or give another directory with --tensorboard; what is written stays", "write for TensorBoard: %w", err)
}

// Write implements Sink. The swarm's files are written after those of the peers: what they have all have.
func (b *Board) Write(_ context.Context, rounds []Round) error {
	events := map[string][]tensorboard.Event{}
	add := func(name string, r *Round, values []Value) {
		e := tensorboard.Event{AtMS: r.AtMS, Step: r.Round}
		for _, v := range values {
			e.Scalars = append(e.Scalars, tensorboard.Scalar{Tag: v.Key, Value: v.Value})
		}
		events[name] = append(events[name], e)
	}
	for i := range rounds {
		r := &rounds[i]
		for _, p := range r.Peers {
			if naming.ValidNode(p.Node) { // it becomes a path
				add(peerDir(p.Node), r, p.Values)
			}
		}
		add(swarmDir, r, r.Swarm)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(events)), func(name string) bool { return name == swarmDir })
	for _, name := range append(names, swarmDir) {
		d, err := b.of(name)
		if err != nil {
			return err
		}
		if err := d.Write(events[name]); err != nil {
			return b.failed(err)
		}
	}
	return nil
}

// peerDir is the directory of a peer.
func peerDir(node string) string {
	if node == swarmDir {
		return "peer+swarm"
	}
	return node
}

// End implements Sink: TensorBoard knows no end.
func (*Board) End(context.Context, *State) error { return nil }

// Stand implements Sink, likewise.
func (*Board) Stand(context.Context, *State) error { return nil }
