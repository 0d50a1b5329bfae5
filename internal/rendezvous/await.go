package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/pause"
)

const (
	look     = 100 * time.Millisecond // between two questions
	tryFor   = 5 * time.Second        // one question
	saidLate = 10 * time.Second       // a rank that waits so long says so
	closedAt = 30 * time.Second       // a rank whose connections are closed so long gives up
	maxPage  = 4 << 10                // of an answer, in bytes
)

// errClosed says that a connection was closed without an answer, as the rendezvous does with those that come from no member's address.
var errClosed = errors.New("it closes connections: rank 0 may have refused this host's address, see its log")

// Await blocks until the rendezvous answers, or ctx ends. Horovod's client gives up after a second, and rank 0 may be the last that is started. It gives up
// before where connections are closed again and again.
func Await(ctx context.Context, at netip.AddrPort, say func(line string)) error {
	late, closed := time.Now().Add(saidLate), time.Time{}
	for why := error(nil); ; {
		err := tryOnce(ctx, at)
		if ctx.Err() == nil || why == nil { // a question that is broken off says less than the one before
			why = err
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errClosed):
			closed = time.Time{}
		case closed.IsZero():
			closed = time.Now()
		case time.Since(closed) > closedAt:
			return fmt.Errorf("rank 0 does not answer at %s: %w", at, err)
		}
		if now := time.Now(); !late.IsZero() && now.After(late) {
			say(fmt.Sprintf("waiting for rank 0, whose rendezvous at %s does not answer yet: %v", at, err))
			late = time.Time{}
		}
		if pause.For(ctx, look) != nil {
			return fmt.Errorf("rank 0 did not answer at %s: %w: see its lines in swarmctl get logs JOB, and whether that port is open between the hosts", at, why)
		}
	}
}

// idle ends the error of a client whose connection was closed before it had written to it, for which net/http has no name.
const idle = "server closed idle connection"

// tryOnce asks for a value that nobody has.
func tryOnce(ctx context.Context, at netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+"/await/0", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxPage}} // in no proxy's way
	res, err := client.Do(req)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.HasSuffix(err.Error(), idle) {
			return errClosed
		}
		return errors.Unwrap(err) // without the URL
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusNotFound || strings.TrimSpace(string(answer)) != nobodyHas {
		return fmt.Errorf("something else listens there, which answers %s", res.Status)
	}
	return nil
}

// Listen listens where rank 0 is reached: at that address if it is one of this machine, else at all of them.
func Listen(ctx context.Context, at netip.AddrPort) (l net.Listener, err error) {
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()).String())
	}
	if err != nil {
		return nil, fmt.Errorf("rank 0 can't await the others: %w: end what listens there (ss -ltnp), or name another port in the job, as HOROVOD_GLOO_RENDEZVOUS_PORT in env", err)
	}
	return l, nil
}
