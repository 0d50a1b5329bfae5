package swop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
)

// Logs has what a host's programs print, while they run and for a while after, and the host's own log.
type Logs struct {
	Node    string
	SwarmID func() string
	Own     logs.Source // the host's own; nil: there is none
	View    *View
	Types   map[string]work.Type
	Kept    *Kept
	Left    *artifacts.Store
}

var _ logs.Source = Logs{}

// A log that is followed is looked at for programs that were started since: after lookSoon when the swarm has shown something new, then after twice as
// long, up to lookAgain.
const lookSoon, lookAgain = 100 * time.Millisecond, time.Second

// Log implements logs.Source.
func (l Logs) Log(ctx context.Context, w logs.Wanted, emit func(logs.Line) error) error {
	if w.Assignment == "" {
		if l.Own == nil {
			return fmt.Errorf("%s keeps no log of its own", l.Node)
		}
		return l.Own.Log(ctx, w, emit)
	}
	if w.Artifacts {
		return l.artifacts(ctx, artifacts.Of{Assignment: w.Assignment, Epoch: w.Epoch, Members: w.Members}, emit)
	}
	say := func(from, line string) error { return emit(logs.Line{From: from, Text: line}) }
	seen := map[work.Label]bool{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all, printing := errgroup.WithContext(ctx)
	for wait := lookSoon; ; wait = min(2*wait, lookAgain) {
		hosted := l.hosted(w.Assignment) // before what there is: nothing is started after it is gone
		found, err := l.find(ctx, w.Assignment)
		if err != nil {
			stop()
			_ = all.Wait() // none prints any more when this returns
			return err
		}
		for _, f := range found {
			if seen[f.label] || f.early && w.Follow && hosted { // what has printed nothing yet ends at once
				continue
			}
			seen[f.label] = true
			all.Go(func() error { return f.printer.Print(printing, f.label, w.Tail, w.Follow, say) })
		}
		if !w.Follow || !hosted || printing.Err() != nil {
			break
		}
		if l.again(ctx, wait) {
			wait = lookSoon / 2
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := all.Wait(); err != nil || ctx.Err() != nil {
		return err
	}
	if kept, err := l.Kept.Print(w.Assignment, w.Tail, seen, say); kept || len(seen) > 0 || err != nil {
		return err
	}
	return l.nothing(w.Assignment)
}

// nothing says why there is no log of an assignment.
func (l Logs) nothing(assignment string) error {
	if l.hosted(assignment) {
		return fmt.Errorf("%s has started nothing of assignment %.64s yet: wait with -f, or see swarmctl list taskrunner peers", l.Node, assignment)
	}
	return fmt.Errorf("%s has no log of assignment %.64s: it has carried out nothing of it that prints, or that was too long ago", l.Node, assignment)
}

// again waits for the next look, and reports whether it is there because the swarm shows something new.
func (l Logs) again(ctx context.Context, wait time.Duration) (news bool) {
	changed := l.View.Changed()
	look := time.NewTimer(wait)
	defer look.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
		return true
	case <-look.C:
	}
	return false
}

// hosted reports whether the swarm shows something of an assignment that may start here, or has.
func (l Logs) hosted(assignment string) bool {
	all, known := l.View.Hosted()
	i := slices.IndexFunc(all, func(h task.Hosted) bool { return h.ID == assignment })
	return !known || i >= 0 && slices.ContainsFunc(all[i].Members, func(m task.HostedMember) bool { return !m.Stop })
}

// printed is a member that prints.
type printed struct {
	label   work.Label
	printer work.Printer
	early   bool // it was not started
}

// find returns what there is of the last epoch of an assignment.
func (l Logs) find(ctx context.Context, assignment string) (all []printed, err error) {
	for _, t := range l.Types {
		p, prints := t.Executor.(work.Printer)
		if !prints {
			continue
		}
		found, err := t.Executor.Find(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if f.Assignment == assignment && f.Node == l.Node && f.Swarm == l.SwarmID() {
				all = append(all, printed{f.Label, p, f.State == task.Prepared})
			}
		}
	}
	last := uint32(0)
	for _, p := range all {
		last = max(last, p.label.Epoch)
	}
	return slices.DeleteFunc(all, func(p printed) bool { return p.label.Epoch < last }), nil
}
