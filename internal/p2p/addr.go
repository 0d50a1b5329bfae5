package p2p

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Addr is where a node answers: its text form is PEERID@HOST:PORT, the one of the replicated state.
type Addr struct {
	// PeerID is the node that must answer; "" is not allowed in Dial.
	PeerID peer.ID
	// Host is an IP address or a host name.
	Host string
	// Port is a TCP port.
	Port int
}

// ParseAddr parses PEERID@HOST:PORT; an IPv6 host stands in brackets.
func ParseAddr(s string) (Addr, error) {
	id, hostport, ok := strings.Cut(s, "@")
	if !ok {
		return Addr{}, fmt.Errorf("parse address %.120q: want PEERID@HOST:PORT", s)
	}
	pid, err := peer.Decode(id)
	if err != nil {
		return Addr{}, fmt.Errorf("parse address %.120q: %w", s, err)
	}
	host, portText, err := net.SplitHostPort(hostport)
	if err != nil {
		return Addr{}, fmt.Errorf("parse address %.120q: %w", s, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 || host == "" {
		return Addr{}, fmt.Errorf("parse address %.120q: want PEERID@HOST:PORT with a port from 1 to 65535", s)
	}
	return Addr{PeerID: pid, Host: host, Port: int(port)}, nil
}

// HostPort returns HOST:PORT as net.Dial takes it.
func (a Addr) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// String returns PEERID@HOST:PORT.
func (a Addr) String() string { return a.PeerID.String() + "@" + a.HostPort() }

func (a Addr) validate() error {
	if a.PeerID == "" {
		return errors.New("no peer ID given")
	}
	if a.Host == "" || a.Port < 1 || a.Port > 65535 {
		return fmt.Errorf("address %q is not valid", a.HostPort())
	}
	return nil
}
