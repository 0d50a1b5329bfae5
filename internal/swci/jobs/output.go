package jobs

import (
	"context"
	"slices"
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
	stops   []context.CancelFunc // of what is read
}

// The wait for what was printed last, once the job is over, is bounded by both.
const (
	lastLines = 15 * time.Second
	perHost   = time.Second // that is still to be read
)

// Seen has the lines read of all hosts on which members have started, if they are not yet. Reading ends with ctx.
func (o *Output) Seen(ctx context.Context, a *swarmv1.Assignment) {
	if a.GetPhase() == "running" {
		o.read(ctx, a, true)
	}
}

// End reads what was not read yet of a job that is over, a few hosts at a time, and returns when all is shown, or after a time.
func (o *Output) End(ctx context.Context, a *swarmv1.Assignment) {
	defer o.Close()
	t := time.NewTimer(lastLines + time.Duration(len(o.unread(a)))*perHost)
	defer t.Stop()
	o.read(ctx, a, false)
	all := make(chan struct{})
	go func() {
		o.reading.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	case <-t.C:
		o.tell("not all that was printed last could be read: swarmctl get logs " + Whose(a))
	}
}

// Close has nothing read any more, and returns when nothing is shown any more.
func (o *Output) Close() {
	o.mu.Lock()
	for _, stop := range o.stops {
		stop()
	}
	o.stops = nil
	o.mu.Unlock()
	o.reading.Wait()
}

// read begins to read the lines of hosts of which none of the epoch are read: those that are followed each by itself, and all others in turns, as an
// SN keeps few requests of one operator.
func (o *Output) read(ctx context.Context, a *swarmv1.Assignment, follow bool) {
	unread := o.unread(a)
	if len(unread) == 0 {
		return
	}
	found, err := hostlogs.On(ctx, o.API, a)
	if err != nil {
		o.tell("what members print is not shown: " + err.Error())
		return
	}
	found = slices.DeleteFunc(found, func(l hostlogs.Log) bool { return !unread[l.Node.GetName()] })
	if follow && o.followed()+len(found) > hostlogs.MaxFollowed {
		o.tell("what members print is shown at the end, as they are on too many hosts to follow all; one alone: swarmctl get logs HOST --assignment " + a.GetId() + " -f")
		return
	}
	each := 1
	if !follow {
		each = max(1, len(found))
	}
	for part := range slices.Chunk(found, each) {
		o.begin(ctx, a.GetEpoch(), hostlogs.Query{Tail: hostlogs.MaxTail, Follow: follow, Around: o.Around}, part)
	}
}

// begin has the lines of some hosts read.
func (o *Output) begin(ctx context.Context, epoch uint32, q hostlogs.Query, found []hostlogs.Log) {
	reading, stop := context.WithCancel(ctx)
	mark := func(active bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, l := range found {
			o.begun[l.Node.GetName()], o.active[l.Node.GetName()] = epoch, active
		}
	}
	mark(true)
	o.mu.Lock()
	o.stops = append(o.stops, stop)
	o.mu.Unlock()
	o.reading.Go(func() {
		defer mark(false)
		for _, err := range q.Read(reading, o.API, found, o.line) {
			if reading.Err() == nil {
				o.tell(err.Error())
			}
		}
	})
}

// followed is how many hosts are read.
func (o *Output) followed() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, active := range o.active {
		if active {
			n++
		}
	}
	return n
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
