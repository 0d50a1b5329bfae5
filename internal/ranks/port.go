package ranks

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/swarmd/swarmd/internal/filelock"
)

// FirstPort is where rank 0 listens unless another SL of this host does.
const FirstPort = 29400

const manyPorts = 100

// port is one where rank 0 may listen, until it is released.
type port struct {
	number int
	lock   *filelock.Lock
}

// takePort finds a port that is free: the wanted one, or if that is 0 one from FirstPort on. Other SLs of this user find another until it is released,
// also before the program listens.
func takePort(ctx context.Context, wanted int) (p port, err error) {
	from, to := FirstPort, FirstPort+manyPorts
	if wanted > 0 {
		from, to = wanted, wanted+1
	}
	for n := from; n < to; n++ {
		if p, err = tryPort(ctx, n); err == nil {
			return p, nil
		}
	}
	if wanted > 0 {
		return p, fmt.Errorf("--rank-port %d: %w: choose another", wanted, err)
	}
	return p, fmt.Errorf("no port of %d to %d is free for rank 0 (%w): name one with --rank-port", from, to-1, err)
}

func tryPort(ctx context.Context, n int) (p port, err error) {
	p.number = n
	if p.lock, err = filelock.Take(filepath.Join(os.TempDir(), fmt.Sprintf("swarmd-rank-%d-%d.lock", os.Geteuid(), n))); err != nil {
		return p, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(n))
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		p.release()
	}
	return p, err
}

func (p port) release() {
	if p.lock != nil {
		_ = p.lock.Close() // it ends with the process anyway
	}
}
