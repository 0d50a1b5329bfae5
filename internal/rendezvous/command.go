package rendezvous

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Command is the first argument by which swarmd is told to begin a rank.
const Command = "run-rank"

// serving is the option by which it serves on a listener that it has been given as the first file behind its streams.
const serving, givenFile = "serving", 3

// notStarted is the exit code of a program that could not be started, as in a shell.
const notStarted = 126

// Meeting is where ranks meet, as one of them is told.
type Meeting struct {
	At     netip.AddrPort
	Own    netip.Addr    // by which this rank is reached
	Ranks  []netip.Addr  // all of them, if this is rank 0, which serves; empty: it waits
	Within time.Duration // how long it waits
}

// Wrap are the words before the command line of a rank's program that begin it by swarmd's executable.
func (m Meeting) Wrap(executable string) []string {
	args := []string{executable, Command, "-at=" + m.At.String(), "-own=" + m.Own.String(), "-within=" + m.Within.String()}
	if len(m.Ranks) > 0 {
		args = append(args, "-ranks="+m.ranks())
	}
	return append(args, "--")
}

func (m Meeting) ranks() string {
	var all []string
	for _, a := range m.Ranks {
		all = append(all, a.String())
	}
	return strings.Join(all, ",")
}

// Begin begins a rank: rank 0 has a process beside it that serves, which ends with its container, or by its keeper; another one waits for that. Then this
// process becomes the rank's program. It takes the arguments behind Command, and returns the exit code if it does not.
func Begin(args []string) int {
	m, words, served, err := parsed(args)
	ctx := context.Background()
	switch {
	case err != nil:
	case served:
		err = m.serve(ctx)
		if err == nil {
			return 0
		}
	case len(m.Ranks) > 0:
		err = m.server(ctx)
	default:
		within, cancel := context.WithTimeout(ctx, m.Within)
		err = Await(within, m.At, say)
		cancel()
	}
	if err == nil {
		err = becomes(m.Own, words)
	}
	say(err.Error())
	return notStarted
}

func say(line string) { fmt.Fprintf(os.Stderr, "swarmd: %s\n", line) }

// parsed reads the arguments.
func parsed(args []string) (m Meeting, words []string, served bool, err error) {
	var at, own, ranks string
	flags := flag.NewFlagSet("swarmd "+Command, flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprintf(flags.Output(), "swarmd %s is for swarmd itself\n", Command) }
	flags.StringVar(&at, "at", "", "")
	flags.StringVar(&own, "own", "", "")
	flags.DurationVar(&m.Within, "within", 0, "")
	flags.StringVar(&ranks, "ranks", "", "")
	flags.BoolVar(&served, serving, false, "")
	if err := flags.Parse(args); err != nil {
		return m, nil, false, err
	}
	if m.At, err = netip.ParseAddrPort(at); err != nil {
		return m, nil, false, fmt.Errorf("-at: %w", err)
	}
	if m.Own, err = netip.ParseAddr(own); err != nil && !served {
		return m, nil, false, fmt.Errorf("-own: %w", err)
	}
	for _, s := range strings.FieldsFunc(ranks, func(r rune) bool { return r == ',' }) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return m, nil, false, fmt.Errorf("-ranks: %w", err)
		}
		m.Ranks = append(m.Ranks, a)
	}
	if words = flags.Args(); len(words) == 0 && !served {
		return m, nil, false, errors.New("there is no program to begin")
	}
	return m, words, served, nil
}

// server listens, and has another process serve what comes.
func (m Meeting) server(ctx context.Context) error {
	l, err := Listen(ctx, m.At)
	if err != nil {
		return err
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File() //nolint:forcetypeassert // the network is tcp
	if err != nil {
		return fmt.Errorf("pass the rendezvous on: %w", err)
	}
	defer f.Close()
	own, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(own, Command, "-"+serving, "-at="+m.At.String(), "-ranks="+m.ranks()) //nolint:noctx // it outlives this program
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{f}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the rendezvous: %w", err)
	}
	return cmd.Process.Release()
}

// serve serves on the listener that this process was given.
func (m Meeting) serve(ctx context.Context) error {
	f := os.NewFile(givenFile, "rendezvous")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("take the rendezvous over: %w", err)
	}
	_ = f.Close() // the listener has its own
	return (&Server{Store: NewStore(len(m.Ranks)), Ranks: m.Ranks, Say: say}).Serve(ctx, l)
}
