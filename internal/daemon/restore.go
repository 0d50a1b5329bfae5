package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/consensus/restore"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/userdirs"
)

func restoreCommand(e Env) *cli.Command {
	c := described(restoreHelp, command("restore-sn", "make an SN's state directory from a backup, when all SNs or most of them are lost", append(operatorFlags(),
		stringFlag("name", "name of the SN; that of a lost one may be used again (default: sn-<host>-<port>)"),
		stringFlag("host-ip", "address or host name under which the other nodes will reach the SN (required)"),
		portFlag("sn-p2p-port", start.P2PPort, "port for the traffic between SNs"),
		stringFlag("state-dir", "directory to make, absent or empty (default: the one that run-sn takes for this name)"),
		stringFlag("swarm-id", "refuse a backup of any swarm but this one"),
	), nil))
	c.ArgsUsage = "FILE"
	c.Action = func(c *cli.Context) error { return restoreSN(c, e) }
	return c
}

const restoreHelp = `FILE is what "swarmctl backup sn FILE" has written. All of it is checked before anything is written; then the group of SNs is founded
anew from it, with a new node key, which an operator (role swci) signs. Start the SN with its usual command afterwards, then others as usual.
SLs follow by themselves. While SNs that the backup names still answer it refuses and says what to do instead.`

func restoreSN(c *cli.Context, e Env) error {
	if c.NArg() != 1 {
		return errors.New("restore-sn takes one FILE, which swarmctl backup sn has written; see swarmd restore-sn --help")
	}
	host, port := c.String("host-ip"), c.Int("sn-p2p-port")
	if host == "" {
		return errors.New("mandatory parameter --host-ip not specified; give the address under which other nodes will reach this SN")
	}
	if err := address.CheckHost("host-ip", host); err != nil {
		return err
	}
	name, dir := c.String("name"), c.String("state-dir")
	if name == "" {
		name = fmt.Sprintf("sn-%s-%d", strings.NewReplacer(":", "-").Replace(host), port)
	}
	if dir == "" {
		nodes, err := userdirs.Of(e.Getenv).Nodes()
		if err != nil {
			return err
		}
		dir = filepath.Join(nodes, name)
	}
	source, domains, log, err := operatorIdentity(c, e)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	res, err := restore.Restore(c.Context, restore.Config{
		File: c.Args().First(), Dir: dir, Name: name, Host: host, P2PPort: port, SwarmID: c.String("swarm-id"), Source: source, Log: log,
		Lost: func(ctx context.Context, of epoch.Pin, sns []recovery.Voter) error {
			all, err := reach(ctx, p2p.ProbeConfig{Source: source, Domains: domains}, e.Stdout, sns)
			if err != nil {
				return err
			}
			return superseded(of, all)
		},
	})
	if err != nil {
		return err
	}
	sayRestored(e.Stdout, dir, res)
	return nil
}

// superseded refuses to restore a backup of a swarm while SNs that it names answer, whatever their keys: what they have is newer.
func superseded(of epoch.Pin, sns []reached) error {
	var there []string
	for _, a := range sns {
		switch of.Compare(a.swarm) {
		case epoch.Newer, epoch.Another:
			return fmt.Errorf("the swarm lives: SN %s is of epoch %d of it, which was recovered since the backup: start this SN with its usual command and a new state directory, it joins", a.Name, epochNumber(a.swarm))
		case epoch.Same:
			there = append(there, a.Name)
		}
	}
	switch {
	case len(there) == 0:
		return nil
	case 2*len(there) > len(sns):
		return fmt.Errorf("the swarm lives: %s, %d of the %d SNs that the backup names, can be reached: start this SN with its usual command, it joins", strings.Join(there, ", "), len(there), len(sns))
	}
	return fmt.Errorf("%s can be reached and may hold more than the backup: swarmd recover-sn there loses less; if it can't be used, stop it first", strings.Join(there, ", "))
}

func sayRestored(w io.Writer, dir string, r restore.Result) {
	if r.Before {
		fmt.Fprintf(w, "swarm %s is restored as epoch %d in %s: the command before had almost ended\n", r.SwarmID, r.Epoch, dir)
	} else {
		fmt.Fprintf(w, "swarm %s is restored as epoch %d in %s, as it was at %s: raft index %d, ledger record %d; signed by %s\n",
			r.SwarmID, r.Epoch, dir, time.UnixMilli(r.Backup.AtMS).UTC().Format("2006-01-02 15:04:05 UTC"), r.Backup.Index, r.Backup.Ledger.Length, r.By)
	}
	fmt.Fprintf(w, "nodes that have followed a later recovery than the backup knows, which is of epoch %d, will not follow this one\n", r.Epoch-1)
	fmt.Fprintf(w, "the signatures in its ledger were not checked; with the CAs: swarmctl verify backup FILE --bundle CA\n")
	fmt.Fprintf(w, "start SN %s with its usual command, then other SNs as new ones\n", r.Node)
}
