package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/logs/form"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/node"
)

// identityWait bounds the wait for the operator's identity.
const identityWait = 15 * time.Second

// understandFlag has the user say what recover-sn can't know.
const understandFlag = "i-understand-that-the-others-are-gone"

func recoverCommand(e Env) *cli.Command {
	flags := append(operatorFlags(),
		stringFlag("state-dir", "state directory of the SN that is left; its daemon must be stopped (required)"),
		&cli.BoolFlag{Name: "abandon", Usage: "take back what an interrupted recovery has begun, as when most SNs came back after all; needs no identity"},
		&cli.BoolFlag{Name: understandFlag, Usage: "say that most SNs are gone for good and what they alone had committed is lost (required)"},
	)
	return described(recoverHelp, command("recover-sn", "restart the group of SNs from the one that is left, when most are gone for good", flags, func(c *cli.Context) error {
		switch {
		case c.String("state-dir") == "":
			return errors.New("mandatory parameter --state-dir not specified; give the state directory of the SN that is left")
		case c.Bool("abandon"):
			return abandonRecovery(c, e)
		case !c.Bool(understandFlag):
			return fmt.Errorf("this takes the vote from all other SNs, for good, and what only they had committed is lost: if they are gone for good repeat the command with --%s", understandFlag)
		}
		return recoverSN(c, e)
	}))
}

const recoverHelp = `If a majority of the SNs can come back, start them instead. Stop this SN first, and run this with the identity of an
operator (role swci), who signs that the group of SNs begins anew with this one; then start it with its usual command. SLs and swarmctl
follow by themselves, new SNs join as usual. A lost SN that comes back is refused until its state directory is moved away.`

// operatorFlags are those of an operator's identity.
func operatorFlags() []cli.Flag {
	return append([]cli.Flag{
		stringFlag("identity", "where the operator's identity comes from: embedded[=DIR] (one machine, see run-authority) or spiffe"),
		stringFlag("socket-path", "SPIFFE Workload API socket of an agent (default: $SPIFFE_ENDPOINT_SOCKET)"),
		&cli.StringSliceFlag{Name: "trust-domain", Usage: "accept this foreign trust domain too (repeatable)"},
		stringFlag("spiffe-prefix", "path before the role in SPIFFE IDs, the same on all nodes: /swarm (default), or / for IDs such as spiffe://DOMAIN/sl"),
		stringFlag("log-level", "debug, info, warn or error"),
	}, certFlags()...)
}

// operatorIdentity opens what operatorFlags name. The caller closes it.
func operatorIdentity(c *cli.Context, e Env) (identity.Provider, identity.Domains, *slog.Logger, error) {
	level, err := logLevel(c.String("log-level"))
	if err != nil {
		return nil, identity.Domains{}, nil, err
	}
	log := form.New(e.Stderr, "swarm.recovery", level)
	prefix, err := identity.ParsePrefix(c.String("spiffe-prefix"))
	if err != nil {
		return nil, identity.Domains{}, nil, err
	}
	source, err := openOperator(c, e, node.Common{TrustDomains: c.StringSlice("trust-domain"), SPIFFEPrefix: prefix, Log: log})
	if err != nil {
		return nil, identity.Domains{}, nil, fmt.Errorf("the operator's identity: %w", err)
	}
	domains, err := identity.DomainsOf(source, c.StringSlice("trust-domain")...)
	if err != nil {
		return nil, domains, nil, errors.Join(err, source.Close())
	}
	return source, domains, log, nil
}

func openOperator(c *cli.Context, e Env, base node.Common) (identity.Provider, error) {
	ctx, cancel := context.WithTimeout(c.Context, identityWait)
	defer cancel()
	var o start.Node
	if err := read(c, &o); err != nil {
		return nil, err
	}
	files, err := withCerts(&o, &base)
	if err != nil {
		return nil, err
	}
	if files {
		return base.OpenIdentity(ctx, identity.RoleSWCI, "")
	}
	if o.Identity == "" && o.SocketPath == "" && e.Getenv("SPIFFE_ENDPOINT_SOCKET") == "" {
		return nil, errors.New("none is known: give --socket-path of a SPIFFE agent, --identity embedded[=DIR], or --cert and --key")
	}
	socket, err := o.Socket(e.Getenv, identity.RoleSWCI)
	if err != nil {
		return nil, err
	}
	source, err := identity.OpenSource(ctx, identity.SourceConfig{Socket: socket, Role: identity.RoleSWCI, Prefix: base.SPIFFEPrefix, Log: base.Log})
	if err != nil {
		return nil, err // not a nil source, which would be a provider that is not nil
	}
	return source, nil
}

func recoverSN(c *cli.Context, e Env) error {
	if _, err := recovery.Owner(c.String("state-dir")); err != nil {
		return err
	}
	source, domains, log, err := operatorIdentity(c, e)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	res, err := recovery.Found(c.Context, recovery.Config{
		Dir: c.String("state-dir"), Source: source, Log: log,
		Lost: func(ctx context.Context, of epoch.Pin, others []recovery.Voter) error {
			all, err := reach(ctx, p2p.ProbeConfig{Source: source, Domains: domains}, e.Stdout, others)
			if err != nil {
				return err
			}
			return lost(of, all)
		},
	})
	if err != nil {
		return err
	}
	sayRecovered(e.Stdout, res)
	return nil
}

func abandonRecovery(c *cli.Context, e Env) error {
	level, err := logLevel(c.String("log-level"))
	if err != nil {
		return err
	}
	dir := c.String("state-dir")
	begun, err := recovery.Abandon(dir, form.New(e.Stderr, "swarm.recovery", level))
	if err != nil {
		return err
	}
	if !begun {
		return fmt.Errorf("no recovery was begun in %s that is not done", dir)
	}
	fmt.Fprintf(e.Stdout, "what the recovery had begun in %s is taken back: start the SN with its usual command\n", dir)
	return nil
}

func sayRecovered(w io.Writer, r recovery.Result) {
	if r.Before {
		fmt.Fprintf(w, "swarm %s has been recovered as epoch %d from SN %s already: start that with its usual command\n", r.SwarmID, r.Epoch, r.Node)
		return
	}
	gone := ""
	if len(r.Forgot) > 0 {
		gone = "; no longer of it: " + strings.Join(r.Forgot, ", ")
	}
	fmt.Fprintf(w, "swarm %s is recovered as epoch %d from SN %s, at raft index %d and ledger record %d, signed by %s%s\n", r.SwarmID, r.Epoch, r.Node, r.Index, r.Had.Length, r.By, gone)
	fmt.Fprintf(w, "start SN %s with its usual command, then new SNs as usual\n", r.Node)
}

// lost refuses while a majority of the old group, of this swarm and epoch, could come together: this node, and those that answer, under
// whatever key.
func lost(of epoch.Pin, others []reached) error {
	var there []string
	for _, a := range others {
		switch of.Compare(a.swarm) {
		case epoch.Newer, epoch.Another:
			return fmt.Errorf("SN %s is of epoch %d of the swarm, which was recovered without this one: move the state directory of this SN away and start it again, so that it joins as a new one", a.Name, epochNumber(a.swarm))
		case epoch.Same:
			there = append(there, a.Name)
		}
	}
	slices.Sort(there)
	if all := len(others) + 1; 2*(len(there)+1) > all {
		return fmt.Errorf("%s can be reached: with this SN that is %d of %d, a majority, and nothing needs to be recovered: start this SN with its usual command", strings.Join(there, ", "), len(there)+1, all)
	}
	return nil
}

// epochNumber is the epoch of a swarm as SNs name it.
func epochNumber(swarm string) uint64 {
	p, _ := epoch.Parse(swarm)
	return p.Number()
}
