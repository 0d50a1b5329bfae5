package runjob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/swarmd/swarmd/internal/work"
)

// awaitPorts has a member wait whose ports another program of this host listens to: a leader knows of members of jobs alone. At an address that is
// none of this host's nothing can be tried.
func awaitPorts(ctx context.Context, a netip.Addr, ports []int) error {
	for _, p := range ports {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(a, uint16(p)).String()) //nolint:gosec // a port
		if err == nil {
			err = l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		err = fmt.Errorf("it listens to port %d, to which another program of this host does: end that (ss -ltnp), or name another port in the job, as MASTER_PORT, WORKER_PORT, RAY_PORT or HOROVOD_GLOO_RENDEZVOUS_PORT in env, or in ready", p)
		return &work.Passing{Words: err.Error(), Err: err}
	}
	return nil
}
