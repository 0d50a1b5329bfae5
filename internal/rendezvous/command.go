package rendezvous

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Command is the first argument by which swarmd begins a rank.
const Command = "run-rank"

// Options by which it serves on a listener, until a process has ended, both of which it has been given as files behind its streams; and by which it only
// starts a process that does, which then is no child of that.
const (
	serving, apart          = "serving", "apart"
	givenListener, givenEnd = 3, 4
)

// notStarted is the exit code of a program that could not be started, as in a shell.
const notStarted = 126

// Meeting is where ranks meet, for one of them.
type Meeting struct {
	At     netip.AddrPort
	Own    netip.Addr    // by which this rank is reached
	Here   bool          // so are all others: they are in one network
	Ranks  []netip.Addr  // all of them, if this is rank 0, which serves; empty: it waits
	Within time.Duration // how long it waits
}

// MeetingOf returns the meeting of one of several ranks, which are reached at these addresses, at a port of rank 0's. An error is that they can't find each other.
func MeetingOf(ranks []netip.Addr, rank int, port uint16, within time.Duration) (Meeting, error) {
	m := Meeting{At: netip.AddrPortFrom(ranks[0], port), Own: ranks[rank], Within: within, Here: true}
	for i, a := range ranks {
		if !a.Is4() { // Horovod's client knows no others
			return m, fmt.Errorf("rank %d is reached at %s, and ranks of Horovod find each other at addresses of IPv4 alone: start that host's node with --host-ip and one", i, a)
		}
		m.Here = m.Here && a == ranks[0]
	}
	if rank == 0 {
		m.Ranks = ranks
	}
	return m, nil
}

// Wrap are the words before the command line of a rank's program that begin it by swarmd's executable.
func (m Meeting) Wrap(executable string) []string {
	args := []string{executable, Command, "-at=" + m.At.String(), "-own=" + m.Own.String(), "-within=" + m.Within.String()}
	if m.Here {
		args = append(args, "-here")
	}
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

// Begin begins a rank: rank 0 has a process beside it that serves, which ends when its program does; another one waits for that. Then this
// process becomes the rank's program. It takes the arguments behind Command, and returns the exit code if it does not.
func Begin(args []string) int {
	m, words, as, err := parsed(args)
	ctx := context.Background()
	switch {
	case err != nil:
	case as != "":
		if err = m.beside(ctx, as); err == nil {
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
		err = m.becomes(words)
	}
	say(err.Error())
	return notStarted
}

func say(line string) { fmt.Fprintf(os.Stderr, "swarmd: %s\n", line) }

// parsed reads the arguments.
func parsed(args []string) (m Meeting, words []string, as string, err error) {
	var at, own, ranks string
	flags := flag.NewFlagSet("swarmd "+Command, flag.ContinueOnError)
	flags.SetOutput(os.Stderr)
	flags.Usage = func() { fmt.Fprintf(flags.Output(), "swarmd %s is for swarmd itself\n", Command) }
	flags.StringVar(&at, "at", "", "")
	flags.StringVar(&own, "own", "", "")
	flags.BoolVar(&m.Here, "here", false, "")
	flags.DurationVar(&m.Within, "within", 0, "")
	flags.StringVar(&ranks, "ranks", "", "")
	flags.StringVar(&as, "as", "", "")
	if err := flags.Parse(args); err != nil {
		return m, nil, "", err
	}
	if m.At, err = netip.ParseAddrPort(at); err != nil {
		return m, nil, "", fmt.Errorf("-at: %w", err)
	}
	if m.Own, err = netip.ParseAddr(own); err != nil && as == "" {
		return m, nil, "", fmt.Errorf("-own: %w", err)
	}
	for _, s := range strings.FieldsFunc(ranks, func(r rune) bool { return r == ',' }) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return m, nil, "", fmt.Errorf("-ranks: %w", err)
		}
		m.Ranks = append(m.Ranks, a)
	}
	if words = flags.Args(); len(words) == 0 && as == "" {
		return m, nil, "", errors.New("there is no program to begin")
	}
	return m, words, as, nil
}
