package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hostName is what can be a host's name, to nobody's surprise: labels of letters, digits, - and _.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?$`)

// brokenAddress is what is meant to be an IPv4 address, since no name ends in digits alone after a dot.
var brokenAddress = regexp.MustCompile(`\.[0-9]+\.?$`)

// CheckHost fails if host can be neither an address nor a host name, so that there is no use in waiting for it to resolve.
func CheckHost(flag, host string) error {
	switch {
	case net.ParseIP(host) != nil:
		return nil
	case len(host) > 253 || !hostName.MatchString(host) || brokenAddress.MatchString(host):
		return fmt.Errorf("--%s %.260s: neither an address nor a host name: give one of the two, without a port and without brackets", flag, host)
	}
	return nil
}

// JoinAddress reads HOST or HOST:PORT, an IPv6 address in brackets or bare, as --join takes it.
func JoinAddress(given string) (hostPort string, err error) {
	if hostPort, err = address(given, defaultFSPort); err != nil {
		return "", fmt.Errorf("--join %.260s: want HOST or HOST:PORT of an SN's file server", given)
	}
	return hostPort, nil
}

// SNAddress reads HOST or HOST:PORT as --sn-ip takes it, with the port of --sn-api-port where it names none.
func SNAddress(given string, apiPort int) (hostPort string, err error) {
	if err := checkPort("sn-api-port", apiPort); err != nil {
		return "", err
	}
	if hostPort, err = address(given, strconv.Itoa(apiPort)); err != nil {
		return "", fmt.Errorf("--sn-ip %.260s: neither an address nor a host name: want HOST or HOST:PORT of an SN's API, such as 10.0.0.1, sn.example:30304 or [2001:db8::1]:30304", given)
	}
	return hostPort, nil
}

func address(given, defaultPort string) (hostPort string, err error) {
	host, port, err := net.SplitHostPort(given)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(given, "["), "]"), defaultPort
	}
	if err := CheckHost("host", host); err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%.80q is no port", port)
	}
	return net.JoinHostPort(host, port), nil
}

// defaultFSPort is where an SN's file server listens unless told otherwise.
const defaultFSPort = "30305"

// lookup finds the addresses of a host name, as net.Resolver.LookupIP does.
type lookup func(ctx context.Context, network, host string) ([]net.IP, error)

// resolve returns the addresses of a host name or address.
func (l lookup) resolve(ctx context.Context, flag, host string) ([]net.IP, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := l(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("--%s %s does not resolve: give an address, or a name that this machine's DNS or /etc/hosts knows", flag, host)
	}
	return ips, nil
}

// bindHost is where to listen: host itself when it is an address of this machine, else every address.
func bindHost(ips []net.IP) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, ip := range ips {
		own := slices.ContainsFunc(addrs, func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		})
		if own || ip.IsLoopback() {
			return ip.String()
		}
	}
	return ""
}

// sameHost compares two resolved hosts.
func sameHost(a, b []net.IP) bool {
	return slices.ContainsFunc(a, func(ip net.IP) bool { return slices.ContainsFunc(b, ip.Equal) })
}

func join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// listen opens a listener, as net.ListenConfig.Listen does.
type listen func(ctx context.Context, network, address string) (net.Listener, error)

// checkFree fails with the flag to change when a port can't be bound.
func (l listen) checkFree(ctx context.Context, host, flag string, port int) error {
	if err := checkPort(flag, port); err != nil {
		return err
	}
	ln, err := l(ctx, "tcp", join(host, port))
	switch {
	case err == nil:
		return ln.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %d on %s is in use by %s: stop that process or give another port with --%s", port, orAll(host), portHolder(host, port), flag)
	}
	return fmt.Errorf("listen on %s: %w; give another port with --%s", join(host, port), err, flag)
}

func orAll(host string) string {
	if host == "" {
		return "all addresses"
	}
	return host
}
