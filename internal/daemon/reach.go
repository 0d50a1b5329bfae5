package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/swarmd/swarmd/consensus/recovery"
	"github.com/swarmd/swarmd/internal/p2p"
)

// reached is what came of asking one SN who it is.
type reached struct {
	recovery.Voter
	swarm string // that it belongs to, as SNs name it to each other; empty: it is gone
	gone  error  // why it counts as gone
}

// reach asks all SNs at once who they are, and says on w what it found. One counts as gone where the network says that nothing is there, or
// where something else answers. One that is there, but with which this command has no handshake, may live and serve everybody else:
// that is an error.
func reach(ctx context.Context, cfg p2p.ProbeConfig, w io.Writer, sns []recovery.Voter) ([]reached, error) {
	all, errs := make([]reached, len(sns)), make([]error, len(sns))
	var asked sync.WaitGroup
	for i, v := range sns {
		all[i].Voter = v
		asked.Go(func() {
			p, err := p2p.Probe(ctx, cfg, v.Address)
			switch {
			case err == nil:
				all[i].swarm = p.SwarmID
			case isGone(err):
				all[i].gone = err
			default:
				errs[i] = fmt.Errorf("SN %s answers at %s, and may live: %w; give an identity and --trust-domain with which it can be asked, or stop it, or cut it off from the network", v.Name, v.Address, err)
			}
		})
	}
	asked.Wait()
	for _, r := range all {
		switch {
		case r.gone != nil:
			fmt.Fprintf(w, "SN %s is gone: %v\n", r.Name, r.gone)
		case r.swarm != "":
			fmt.Fprintf(w, "SN %s answers at %s: it is of swarm %s\n", r.Name, r.Address, r.swarm)
		}
	}
	return all, errors.Join(errs...)
}

// isGone reports whether a probe met nobody: it could not connect, or something else than a swarm node has the port. What connects and says
// nothing may be a node that hangs.
func isGone(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return errors.Is(err, p2p.ErrNoSwarmNode) && !errors.Is(err, context.DeadlineExceeded)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsNotFound
	}
	for _, e := range []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return op.Timeout() // what else keeps this machine from connecting says nothing of the SN
}
