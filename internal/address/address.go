// Package address reads what users name nodes by, resolves it, and finds where a node can listen.
package address

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

// FileServer reads HOST or HOST:PORT, an IPv6 address in brackets or bare, as --join takes it.
func FileServer(given string) (hostPort string, err error) {
	if hostPort, err = HostPort(given, defaultFSPort); err != nil {
		return "", fmt.Errorf("--join %.260s: want HOST or HOST:PORT of an SN's file server", given)
	}
	return hostPort, nil
}

// API reads HOST or HOST:PORT as --sn-ip takes it, with the port of --sn-api-port where it names none.
func API(given string, apiPort int) (hostPort string, err error) {
	if err := CheckPort("sn-api-port", apiPort); err != nil {
		return "", err
	}
	if hostPort, err = HostPort(given, strconv.Itoa(apiPort)); err != nil {
		return "", fmt.Errorf("--sn-ip %.260s: neither an address nor a host name: want HOST or HOST:PORT of an SN's API, such as 10.0.0.1, sn.example:30304 or [2001:db8::1]:30304", given)
	}
	return hostPort, nil
}

// HostPort reads HOST or HOST:PORT, an IPv6 address in brackets or bare, and returns it with a port.
func HostPort(given, defaultPort string) (hostPort string, err error) {
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

// Lookup finds the addresses of a host name, as net.Resolver.LookupIP does.
type Lookup func(ctx context.Context, network, host string) ([]net.IP, error)

// Resolve returns the addresses of a host name or address, which was given with a flag.
func (l Lookup) Resolve(ctx context.Context, flag, host string) ([]net.IP, error) {
	if ip := net.ParseIP(host); ip != nil {
		return []net.IP{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := l(ctx, "ip", host)
	if err != nil {
		return nil, &problem{
			fmt.Sprintf("--%s %s does not resolve", flag, host), "give an address, or a name that this machine's DNS or /etc/hosts knows", nil,
		}
	}
	return ips, nil
}

// Bindable is where to listen: host itself when it is an address of this machine, else every address.
func Bindable(ips []net.IP) string {
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

// Same reports whether two resolved hosts have an address in common.
func Same(a, b []net.IP) bool {
	return slices.ContainsFunc(a, func(ip net.IP) bool { return slices.ContainsFunc(b, ip.Equal) })
}

// Join is HOST:PORT.
func Join(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Listen opens a listener, as net.ListenConfig.Listen does.
type Listen func(ctx context.Context, network, address string) (net.Listener, error)

// CheckFree fails with the flag to change when a port can't be bound.
func (l Listen) CheckFree(ctx context.Context, host, flag string, port int) error {
	if err := CheckPort(flag, port); err != nil {
		return err
	}
	ln, err := l(ctx, "tcp", Join(host, port))
	switch {
	case err == nil:
		return ln.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return &problem{fmt.Sprintf("port %d on %s is in use by %s", port, orAll(host), owner(host, port)), "stop that process or give another port with --" + flag, err}
	}
	return &problem{fmt.Sprintf("listen on %s: %v", Join(host, port), err), "give another port with --" + flag, err}
}

// problem is an error with what to do about it.
type problem struct {
	text, remedy string
	cause        error
}

func (p *problem) Error() string  { return p.text + ": " + p.remedy }
func (p *problem) Remedy() string { return p.remedy }
func (p *problem) Unwrap() error  { return p.cause }

func orAll(host string) string {
	if host == "" {
		return "all addresses"
	}
	return host
}

// CheckPort fails with the flag to change when a number can be no port.
func CheckPort(flag string, port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("--%s %d: want a port from 1 to 65535", flag, port)
	}
	return nil
}

// ParseListen reads HOST:PORT of this machine; an empty host is every address.
func ParseListen(hostPort string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(hostPort)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err != nil || port < 1 || port > 65535 || host != "" && CheckHost("host", host) != nil {
		return "", 0, errors.New("want HOST:PORT, such as 127.0.0.1:9464")
	}
	return host, port, nil
}

// Toward returns this host's own address on the way to HOST:PORT, a name that is looked up or an address. Nothing is sent there.
func Toward(ctx context.Context, hostPort string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "udp", hostPort)
	if err != nil {
		return "", fmt.Errorf("find this host's address towards %s: %w", hostPort, err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}
