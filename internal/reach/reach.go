// Package reach says why an address could not be dialled, and remembers it.
package reach

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// Causes of an Error.
const (
	CauseRefused     = "refused"     // the host says that nothing listens at the port, or a firewall says it
	CauseTimeout     = "timeout"     // what is sent there gets no answer: the host is off, or a firewall drops it
	CauseUnreachable = "unreachable" // there is no way to the host
	CauseUnresolved  = "unresolved"  // the host's name has no address
)

// Error says that no TCP connection to HOST:PORT could be opened.
type Error struct {
	HostPort string
	Cause    string // one of the causes
	Err      error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Brief is the error in the words of a line that names the peer already.
func (e *Error) Brief() string {
	switch e.Cause {
	case CauseRefused:
		return e.HostPort + " (TCP) refuses connections"
	case CauseUnreachable:
		return e.HostPort + " (TCP) is not reachable from here"
	case CauseUnresolved:
		return e.HostPort + ": the name has no address here"
	}
	return e.HostPort + " (TCP) does not answer"
}

// Classify sorts an error of connecting to an address.
func Classify(hostport string, err error) *Error {
	e := &Error{HostPort: hostport, Cause: CauseTimeout, Err: err}
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Cause = CauseRefused
	case errors.As(err, &dns):
		e.Cause = CauseUnresolved
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Cause = CauseUnreachable
	}
	return e
}

const (
	// maxFailed bounds the addresses whose Failures are remembered.
	maxFailed = 1024
	// failedFor is how long a failure counts when it is decided which side is asked first.
	failedFor = 5 * time.Minute
)

// Failures remembers which addresses could not be dialled. The zero value is ready. Safe for concurrent use.
type Failures struct {
	mu sync.Mutex
	by map[string]Failure // by HOST:PORT
}

// Failure is how an address could not be dialled.
type Failure struct {
	Err   *Error
	Since time.Time // of the first try of those that failed one after the other, none of them five minutes after the one before
	At    time.Time // of the last one
}

// Note takes what came of a dial; nil: it succeeded.
func (f *Failures) Note(hostport string, err error) {
	var dial *Error
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !errors.As(err, &dial):
		if err == nil {
			delete(f.by, hostport)
		}
		return // Somebody else's word, or the caller's end, says nothing of the way there.
	case f.by == nil:
		f.by = map[string]Failure{}
	case len(f.by) >= maxFailed && f.by[hostport].Err == nil:
		for other := range f.by { // any
			delete(f.by, other)
			break
		}
	}
	since := now
	if before := f.by[hostport]; before.Lately(now) {
		since = before.Since
	}
	f.by[hostport] = Failure{dial, since, now}
}

// Last returns how the last dial failed; its Err is nil if it did not.
func (f *Failures) Last(hostport string) Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[hostport]
}

// Lately reports whether an address could not be dialled a short while ago.
func (f *Failures) Lately(hostport string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[hostport].Lately(time.Now())
}

// Lately reports whether it was a short while ago.
func (x Failure) Lately(now time.Time) bool { return x.Err != nil && now.Sub(x.At) < failedFor }
