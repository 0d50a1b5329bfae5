// Package top is the screen of `swarmctl top`: the swarm and one contract in a terminal, as they change. It shows the documents of the
// dashboard, asks for them in the background, and keeps what was known last while the swarm can't be asked.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	askTime   = 25 * time.Second // for one document
	perSecond = 10               // drawings at most
)

// Documents are what there is to show. All methods are safe for concurrent use.
type Documents interface {
	// Get makes a document anew. Beside a value an error says what is wrong with it.
	Get(ctx context.Context, name string) (json.RawMessage, error)
	// Link names the SN that is asked, with an error while no question can have an answer.
	Link() (sn string, err error)
}

// Config is what a screen needs.
type Config struct {
	Documents Documents
	Contract  string // that is shown first; empty: one that trains, or the first
	Color     bool
	Now       func() time.Time
	// In and Out are the terminal, and Environment what describes it, KEY=VALUE.
	In          io.Reader
	Out         io.Writer
	Environment []string
}

// Run shows the screen until the user quits or ctx ends, and restores the terminal.
func Run(ctx context.Context, cfg Config) error {
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var p *tea.Program
	var broke atomic.Value // what panicked, with its stack
	m := newScreen(cfg, func(name string) answer {
		defer func() {
			if what := recover(); what != nil { // the library would leave while its reader still uses the terminal
				broke.CompareAndSwap(nil, fmt.Sprintf("%v\n\n%s", what, debug.Stack()))
				p.Quit()
			}
		}()
		return question(asking, cfg, name)
	})
	p = tea.NewProgram(m, tea.WithInput(cfg.In), tea.WithOutput(cfg.Out), tea.WithEnvironment(cfg.Environment), tea.WithoutSignalHandler(), tea.WithFPS(perSecond))
	defer context.AfterFunc(ctx, p.Quit)() // WithContext would have it leave while its reader still uses the terminal
	_, err := p.Run()
	what := broke.Load()
	if what != nil {
		fmt.Fprintln(cfg.Out, what)
	}
	if what != nil || errors.Is(err, tea.ErrProgramPanic) {
		return exit.New(exit.Failed, "report it with what stands above", "the screen broke off")
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return exit.New(exit.Failed, "use another terminal, or swarmctl dashboard", "show the screen: %w", err)
}

// question asks for one document.
func question(ctx context.Context, cfg Config, name string) (a answer) {
	a.name = name
	sn, problem := cfg.Documents.Link()
	err := problem
	if problem == nil {
		one, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		a.value, err = cfg.Documents.Get(one, name)
		if exit.IsLost(err) {
			problem = err
		}
		sn, _ = cfg.Documents.Link()
	}
	a.sn = sn
	if problem != nil {
		a.lost, a.remedy = text.Line(problem.Error()), text.Line(exit.Hint(problem))
	} else if a.value == nil && err != nil {
		a.err, a.remedy = text.Line(err.Error()), text.Line(exit.Hint(err))
	}
	if a.value == nil && err == nil {
		a.err = fmt.Sprintf("the answer for %s is empty", name)
	}
	return a
}
