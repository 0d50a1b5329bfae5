package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/unpack"
)

const (
	dialLimit    = 30 * time.Second
	answerLimit  = time.Minute     // until a server begins to answer
	stallLimit   = 2 * time.Minute // without a byte
	maxRedirects = 10
	maxHeaders   = 1 << 20
)

// errPlace is that an address is not for tasks.
var errPlace = errors.New("it is this host's own, or one of its network's services: tasks may fetch it only if host stands under networks in the host's policy")

// ownPlaces are addresses that serve only this host, and are not of a kind that tells it: metadata of clouds.
var ownPlaces = []netip.Addr{netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("fd00:ec2::254")}

// forAll refuses addresses that mean something else on each host.
func forAll(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	own := a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	for _, p := range ownPlaces {
		own = own || a == p
	}
	if own || !a.IsValid() {
		return errPlace
	}
	return nil
}

// control is asked about each address that is dialled, after its name was resolved.
func control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return errPlace
	}
	return forAll(a.Addr())
}

// web fetches, directly or by the profile's proxies. Who is behind a proxy, is the proxy's matter, but for addresses that are written out.
type web struct {
	proxy           func(*url.URL) (*url.URL, error)
	direct, proxied http.RoundTripper
	host            bool // the host's own places may be fetched
}

// newWeb returns a web. The caller closes it.
func newWeb(proxies []taskfile.Var, host bool) *web {
	var c httpproxy.Config
	for _, v := range proxies {
		switch strings.ToLower(v.Name) {
		case "http_proxy":
			c.HTTPProxy = v.Value
		case "https_proxy":
			c.HTTPSProxy = v.Value
		case "no_proxy":
			c.NoProxy = v.Value
		}
	}
	w := &web{proxy: c.ProxyFunc(), host: host}
	guard := control
	if host {
		guard = nil
	}
	w.direct = transport(&net.Dialer{Timeout: dialLimit, Control: guard}, nil)
	w.proxied = transport(&net.Dialer{Timeout: dialLimit}, func(r *http.Request) (*url.URL, error) { return w.proxy(r.URL) })
	return w
}

func transport(d *net.Dialer, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy: proxy, DialContext: d.DialContext, TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: answerLimit, MaxResponseHeaderBytes: maxHeaders,
		DisableCompression: true, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}
}

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	by, err := w.proxy(r.URL)
	if err != nil || by == nil {
		return w.direct.RoundTrip(r)
	}
	if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !w.host && forAll(a) != nil {
		return nil, errPlace
	}
	return w.proxied.RoundTrip(r)
}

// redirect refuses to follow for ever, and into what can be read on the way.
func redirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("more than %d redirections", maxRedirects)
	case r.URL.Scheme != "https" && (r.URL.Scheme != "http" || via[0].URL.Scheme == "https"):
		return fmt.Errorf("redirected from %s to %.20s://", via[0].URL.Scheme, r.URL.Scheme)
	}
	return nil
}

// fetch fetches a URL into a file, and returns its size and digest.
func (w *web) fetch(ctx context.Context, u *url.URL, to *os.File, b *unpack.Budget) (int64, string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("User-Agent", "swarmd")
	c := http.Client{Transport: w, CheckRedirect: redirect}
	res, err := c.Do(r)
	if err != nil {
		return 0, "", unfetched(u, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode != http.StatusOK:
		return 0, "", unfetched(u, fmt.Errorf("the server answered %d", res.StatusCode))
	case res.ContentLength > b.Bytes:
		return 0, "", unfetched(u, fmt.Errorf("it has %d bytes, at most %d are taken", res.ContentLength, b.Bytes))
	}
	stalled := time.AfterFunc(stallLimit, func() { cancel(fmt.Errorf("nothing came for %v", stallLimit)) })
	defer stalled.Stop()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(&awake{res.Body, stalled}, b.Bytes+1))
	switch {
	case err != nil && context.Cause(ctx) != nil && ctx.Err() != nil:
		return 0, "", unfetched(u, context.Cause(ctx))
	case err != nil:
		return 0, "", unfetched(u, err)
	case n > b.Bytes:
		return 0, "", unfetched(u, fmt.Errorf("it has more than %d bytes", b.Bytes))
	}
	return n, hex.EncodeToString(sum.Sum(nil)), b.Take(n)
}

// awake tells a timer that something comes.
type awake struct {
	io.Reader

	stalled *time.Timer
}

func (a *awake) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.stalled.Reset(stallLimit)
	return n, err
}

// unfetched says what could not be fetched, without what a query may have that is nobody's matter.
func unfetched(u *url.URL, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("fetch %.200s: %w", (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), err)
}
