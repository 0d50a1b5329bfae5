package chaos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/netns"
)

// Config says what to run.
type Config struct {
	Bin     string // folder of swarmd and swarmctl
	Program string // path of a binary whose main function calls Program
	Dir     string // folder for logs, events, ledgers and the report; made if missing, and what was there is removed
	Seed    uint64
	For     time.Duration // no wave begins after that
	Waves   int           // if given, so many, however long they take
	SNs     int           // 0: 3
	SLs     int           // 0: 6
	Floats  int           // of the model; 0: 300,000
	Pace    time.Duration // between two merges of a program; 0: 200 ms
	// Training is how long a training goes on before it is ended and another one begins; 0: 5 minutes.
	Training time.Duration
	// Bound is how long all peers have to be in one round again; 0: a minute.
	Bound time.Duration
	// Known are kinds to try though swarmd is known not to recover from them: see Known. Only, if given, are all kinds that waves
	// are made of.
	Known, Only []Kind
	Loopback    bool // no namespaces and file systems, also for root
	Out         io.Writer
}

func (c Config) root() bool { return !c.Loopback && netns.Available() == nil }

func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		v     *int
		value int
	}{{&c.SNs, 3}, {&c.SLs, 6}, {&c.Floats, 300_000}} {
		if *d.v == 0 {
			*d.v = d.value
		}
	}
	for _, d := range []struct {
		v     *time.Duration
		value time.Duration
	}{{&c.Pace, 200 * time.Millisecond}, {&c.Training, 5 * time.Minute}, {&c.Bound, time.Minute}} {
		if *d.v == 0 {
			*d.v = d.value
		}
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	for _, k := range append(append([]Kind{}, c.Known...), c.Only...) {
		if specs[k] == nil {
			return c, fmt.Errorf("no kind of fault is called %q", k)
		}
	}
	for _, path := range []*string{&c.Bin, &c.Program, &c.Dir} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return c, err
		}
		*path = abs
	}
	for _, name := range []string{"swarmd", "swarmctl"} {
		if _, err := os.Stat(filepath.Join(c.Bin, name)); err != nil {
			return c, fmt.Errorf("no binaries in %s: run make: %w", c.Bin, err)
		}
	}
	if len(c.kinds()) == 0 {
		return c, fmt.Errorf("none of %q can be done here: they need root", c.Only)
	}
	return c, nil
}

// kinds are what waves are made of.
func (c Config) kinds() []Kind {
	if len(c.Only) == 0 {
		return waveKinds(c.root(), c.Known)
	}
	possible := waveKinds(c.root(), c.Only)
	return slices.DeleteFunc(slices.Clone(c.Only), func(k Kind) bool { return !slices.Contains(possible, k) })
}

// shape is what the schedule depends on beside the seed.
func (c Config) shape() Shape { return Shape{SNs: c.SNs, SLs: c.SLs, Kinds: c.kinds()} }
