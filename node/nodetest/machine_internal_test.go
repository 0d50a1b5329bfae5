package nodetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// Machine is what stands on the host of a SWOP: parts of tasks, which outlive the process that looks after them, as containers do.
type Machine struct {
	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	has    map[work.Label]*standing
	begun  map[work.Label]int // how often something was started
	faults []string           // what no machine may see
}

// standing is what there is of one member.
type standing struct {
	state task.State
	busy  *bool     // the process that works for it, by its killed; nil: none does
	until time.Time // when a program comes to its next state
}

func newMachine(seed uint64) *Machine {
	return &Machine{rng: rand.New(rand.NewPCG(seed, 18)), has: map[work.Label]*standing{}, begun: map[work.Label]int{}} //nolint:gosec // the same each time
}

// errKilled is what a process gets of its machine once it was killed: nothing.
var errKilled = errors.New("the process was killed")

// hands are one process's hold on its machine. It is work.Executor.
type hands struct {
	machine *Machine
	repeats bool // tasks are done by Start alone, and leave nothing
	killed  *bool
}

var _ work.Executor = hands{}

// at looks at the machine, unless the process was killed.
func (h hands) at(look func(m *Machine)) error {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	if *h.killed {
		return errKilled
	}
	h.machine.goOn()
	look(h.machine)
	return nil
}

// goOn has programs come to their next state.
func (m *Machine) goOn() {
	for _, x := range m.has {
		for x.state == task.Started && !time.Now().Before(x.until) || x.state == task.Ready && !time.Now().Before(x.until) {
			if x.state == task.Started {
				x.state, x.until = task.Ready, time.Now().Add(m.while())
			} else {
				x.state = task.Exited
			}
		}
	}
}

func (m *Machine) while() time.Duration {
	return time.Duration(m.rng.IntN(25_000)) * time.Millisecond
}

// does is a call of the engine for a member. It fails once in a while.
func (h hands) does(ctx context.Context, l work.Label, what string, then func(m *Machine, x *standing)) error {
	var took time.Duration
	fails := false
	err := h.at(func(m *Machine) {
		if x := m.has[l]; x != nil {
			if x.busy == h.killed {
				m.faults = append(m.faults, fmt.Sprintf("two work at %+v at a time", l))
			}
			x.busy = h.killed
		}
		took, fails = time.Duration(m.rng.IntN(1500))*time.Millisecond, m.rng.IntN(300) == 0
	})
	if err != nil {
		return err
	}
	slept := sleep(ctx, took)
	err = h.at(func(m *Machine) {
		x := m.has[l]
		if x != nil {
			x.busy = nil
		}
		switch {
		case slept != nil:
			err = slept
		case fails:
			err = fmt.Errorf("the engine can't %s", what)
		case x != nil:
			then(m, x)
		}
	})
	return err
}

// Prepare implements work.Executor.
func (h hands) Prepare(ctx context.Context, j work.Job) error {
	err := h.at(func(m *Machine) { m.has[j.Label] = &standing{state: task.Prepared} })
	if err != nil {
		return err
	}
	return h.does(ctx, j.Label, "prepare", func(*Machine, *standing) {})
}

// Start implements work.Executor.
func (h hands) Start(ctx context.Context, j work.Job) (work.Status, error) {
	err := h.at(func(m *Machine) {
		m.begun[j.Label]++
		if x := m.has[j.Label]; x != nil && !h.repeats {
			x.state, x.until = task.Started, time.Now().Add(m.while())
		}
	})
	if err != nil {
		return work.Status{}, err
	}
	err = h.does(ctx, j.Label, "start", func(*Machine, *standing) {})
	if h.repeats {
		return work.Status{State: task.Exited}, err
	}
	return work.Status{State: task.Started}, err
}

// Find implements work.Executor.
func (h hands) Find(context.Context) (all []work.Found, err error) {
	err = h.at(func(m *Machine) {
		for l, x := range m.has {
			all = append(all, work.Found{Label: l, Status: work.Status{State: x.state}})
		}
	})
	return all, err
}

// Clean implements work.Executor.
func (h hands) Clean(ctx context.Context, l work.Label) error {
	return h.does(ctx, l, "remove", func(m *Machine, _ *standing) { delete(m.has, l) })
}

// Left are the members of which something stands.
func (m *Machine) Left() (all []work.Label) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.has {
		all = append(all, l)
	}
	return all
}

// Running are the epochs of which programs run, by assignment.
func (m *Machine) Running() map[string]uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goOn()
	epochs := map[string]uint32{}
	for l, x := range m.has {
		if x.state == task.Started || x.state == task.Ready {
			epochs[l.Assignment] = l.Epoch
		}
	}
	return epochs
}

// Begun returns how often each member was started.
func (m *Machine) Begun() map[work.Label]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun
}
