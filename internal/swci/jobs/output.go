package jobs

import (
	"context"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
)

// Output shows what the members of a job print while it is followed. It is used by one goroutine; the functions are called by others too, one call
// at a time each.
type Output struct {
	API    client.Operator
	Line   func(hostlogs.Line)
	Say    func(string)                 // what a host does not hand out, and why
	Around func(host string, why error) // as that of hostlogs.Query

	mu      sync.Mutex
	reading sync.WaitGroup
	begun   map[string]uint32 // the epoch of which a host's lines are read, or were
	active  map[string]bool
	said    map[string]bool
}

// lastLines bounds the wait for what was printed last, once the job is over.
const lastLines = 15 * time.Second

// Seen has the lines read of all hosts on which members have started, if they are not yet. Reading ends with ctx.
func (o *Output) Seen(ctx context.Context, a *swarmv1.Assignment) {
	if a.GetPhase() == "running" {
		o.read(ctx, a, true)
	}
}

// End reads what was not read yet of a job that is over, and returns when all is shown, or after a time.
func (o *Output) End(ctx context.Context, a *swarmv1.Assignment) {
	o.read(ctx, a, false)
	all := make(chan struct{})
	go func() {
		o.reading.Wait()
		close(all)
	}()
	t := time.NewTimer(lastLines)
	defer t.Stop()
	select {
	case <-all:
	case <-ctx.Done():
	case <-t.C:
		o.tell("not all that was printed last could be read: swarmctl get logs " + Whose(a))
	}
}

// read begins to read the lines of hosts of which none of the epoch are read.
func (o *Output) read(ctx context.Context, a *swarmv1.Assignment, follow bool) {
	if len(o.unread(a)) == 0 {
		return
	}
	found, err := hostlogs.On(ctx, o.API, a)
	if err != nil {
		o.tell("what members print is not shown: " + err.Error())
		return
	}
	unread := o.unread(a)
	q := hostlogs.Query{Tail: hostlogs.MaxTail, Follow: follow, Around: o.Around}
	if follow && len(found) > hostlogs.MaxFollowed {
		o.tell("what members print is shown at the end, as they are on too many hosts to follow all; one alone: swarmctl get logs HOST --assignment " + a.GetId() + " -f")
		return
	}
	for _, l := range found {
		host := l.Node.GetName()
		if !unread[host] {
			continue
		}
		o.mu.Lock()
		o.begun[host], o.active[host] = a.GetEpoch(), true
		o.mu.Unlock()
		o.reading.Go(func() {
			for _, err := range q.Read(ctx, o.API, []hostlogs.Log{l}, o.line) {
				if ctx.Err() == nil {
					o.tell(err.Error())
				}
			}
			o.mu.Lock()
			o.active[host] = false
			o.mu.Unlock()
		})
	}
}

// unread are the hosts of which no lines of the epoch are read, and none of one before.
func (o *Output) unread(a *swarmv1.Assignment) map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun == nil {
		o.begun, o.active, o.said = map[string]uint32{}, map[string]bool{}, map[string]bool{}
	}
	hosts := map[string]bool{}
	for _, m := range a.GetMembers() {
		ran := m.GetState() != "refused" && m.GetState() != "lost" // nothing of others is to be had
		if h := m.GetNode(); ran && o.begun[h] < a.GetEpoch() && !o.active[h] {
			hosts[h] = true
		}
	}
	return hosts
}

func (o *Output) line(l hostlogs.Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Line(l)
}

// tell says a thing once.
func (o *Output) tell(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.said[what] {
		o.said[what] = true
		o.Say(what)
	}
}
