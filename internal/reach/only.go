package reach

import (
	"context"
	"net/netip"
	"syscall"
)

// BarredError says that an address is none that this host connects to on somebody else's word.
type BarredError struct{ Why string }

func (e *BarredError) Error() string { return e.Why }

type onlyKey struct{}

// Only returns a context with which no connection is made to an address of which barred says why not; empty: it may be. barred sees addresses as
// names resolve to them, must not block, and may be called by several goroutines.
func Only(ctx context.Context, barred func(netip.Addr) string) context.Context {
	return context.WithValue(ctx, onlyKey{}, barred)
}

// Control is a net.Dialer's ControlContext, which keeps to Only.
func Control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	barred, ok := ctx.Value(onlyKey{}).(func(netip.Addr) string)
	if !ok {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BarredError{"no IP address"}
	}
	if why := barred(at.Addr().Unmap()); why != "" {
		return &BarredError{why}
	}
	return nil
}

// Remote says why an address is none of another host; empty: it may be one.
func Remote(a netip.Addr) (why string) {
	switch a = a.Unmap(); {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "no address of a host"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "an address of many hosts"
	}
	return ""
}
