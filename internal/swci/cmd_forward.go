package swci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/forward"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/jobs"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

func forwardCommands() []*Command {
	return []*Command{{
		Pattern: "forward JOB MEMBER", Group: "Jobs",
		Summary: "Reach a port of a job's member from this machine, such as Dask's page",
		Details: "MEMBER is a member with a port: by its rank, as GROUP/RANK, or as HOST/GROUP/RANK, as \"get job status\" and logs show them, then a colon and the port, as in scheduler/0:8787. A port of this machine's loopback address leads there until this command is interrupted or the member ends: each connection is a stream to the host's file server (get ports), which must be within reach. A program that is a process, or in the host's network, is reached wherever it listens, one in a container's own network unless it listens there on loopback alone. No port of another program is reached.\n\n" +
			"Whoever reaches the port of this machine reaches the member, in your name. The host's owner decides to whom ports are forwarded: to the SPIFFE IDs that \"forwards\" in the host's policy names, by default to nobody. It also takes the right to use tasks, which cancelling the job takes. Each connection stands in the host's log.",
		Example: "forward grid scheduler/0:8787",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS:PORT` of this machine, a loopback address (default: 127.0.0.1 with the member's port, or a free one)"},
			ofRunFlag(),
		},
		Run: forwardPort,
	}}
}

func forwardPort(ctx context.Context, s *Session, args Args) error {
	job, name := args.Value("JOB"), args.Value("MEMBER")
	if s.JSON {
		return exit.New(exit.Usage, "leave out -o json", "forward %s: it has no end, and so no JSON", job)
	}
	return withTasks(ctx, s, args, func(api client.Tasks) error {
		if err := forwardTo(ctx, s, api, job, name, args.Opts); err != nil {
			return fmt.Errorf("forward %s %s: %w", job, name, err)
		}
		return nil
	})
}

func forwardTo(ctx context.Context, s *Session, api client.Tasks, job, name string, opts *cli.Context) error {
	a, _, err := jobs.Run(ctx, api, job, opts.String("assignment"))
	if err != nil {
		return err
	}
	m, port, err := jobs.MemberNamed(a, name)
	if err != nil {
		return err
	}
	at, err := hostNamed(ctx, api.By, m.GetNode())
	if err != nil {
		return err
	}
	direct := &client.Direct{By: api.By}
	defer direct.Close()
	to := forward.Target{Assignment: a.GetId(), Epoch: a.GetEpoch(), Member: m.GetIndex(), Port: port}
	f := jobs.Forward{Connect: func(ctx context.Context) (forward.Half, error) { return direct.Connect(ctx, at, to) }, Say: s.say}
	first, err := f.Connect(ctx) // what keeps all from being connected is to be known now
	if err != nil {
		return refusedForward(err)
	}
	_ = first.Close()
	l, err := listenNear(ctx, opts.String("listen"), port)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Env.Stdout, "%s leads to port %d of %s; a page there: http://%s\n", l.Addr(), port, text.Line(jobs.Whole(a, m)), l.Addr())
	s.say("until this is interrupted (Ctrl-C), or the member has ended")
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(endOfMember(following, api, to)) }()
	return refusedForward(f.Serve(following, l))
}

// hostNamed is a node that is registered, as a host.
func hostNamed(ctx context.Context, api client.Operator, name string) (*swarmv1.Node, error) {
	listed, err := api.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(listed.GetNodes(), func(n *swarmv1.Node) bool { return n.GetName() == name })
	if i < 0 {
		return nil, exit.New(exit.NotFound, "see: swarmctl list nodes", "host %s has left the swarm", text.Line(name))
	}
	return listed.GetNodes()[i], nil
}

// refusedForward has a host's refusal end with the exit code of one.
func refusedForward(err error) error {
	if no, is := errors.AsType[*forward.RefusedError](err); is {
		return &exit.Error{Status: exit.Conflict, Err: errors.New(text.Line(no.Refused))}
	}
	return err
}

// lookAtMember is between two looks whether a member still runs, where nobody connects.
const lookAtMember = 5 * time.Second

// endOfMember waits until a member runs no more, or ctx ends, and says which.
func endOfMember(ctx context.Context, api client.Tasks, of forward.Target) error {
	for pause.For(ctx, lookAtMember) == nil {
		a, err := api.GetAssignment(ctx, of.Assignment)
		if err != nil {
			continue // the host's word counts, whatever becomes of SNs
		}
		over := tasks.Over(a) || a.GetEpoch() != of.Epoch
		for _, m := range a.GetMembers() {
			over = over || m.GetIndex() == of.Member && slices.Contains([]string{"exited", "refused", "lost", "stopped"}, m.GetState())
		}
		if over {
			return exit.New(exit.Failed, "see: swarmctl get job status "+jobs.Whose(a), "the member has ended")
		}
	}
	return context.Cause(ctx)
}

// listenNear listens on this machine's loopback address: where it is not said, on a port, or a free one if that is taken.
func listenNear(ctx context.Context, address string, port uint16) (net.Listener, error) {
	var config net.ListenConfig
	if address == "" {
		if l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))); err == nil {
			return l, nil
		}
		address = "127.0.0.1:0"
	}
	if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
		return nil, exit.New(exit.Usage, "give --listen 127.0.0.1:PORT, and let others in by what knows them, such as ssh -L", "%.80q is no loopback address of this machine with a port, and whoever reached another one would do so in your name", address)
	}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &exit.Error{Status: exit.Conflict, Err: err, Hint: "give another port with --listen"}
	}
	return l, nil
}
