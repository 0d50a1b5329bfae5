package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/reach"
)

// Config is what a client needs. It must not be changed after [New].
type Config struct {
	// SNs to begin with, as host:port of their APIs. At least one; the others are learned.
	SNs []string
	// Kept are further SNs, which an earlier client learned. They are asked after SNs, until the list is learned anew.
	Kept []SN
	// SwarmID pins the swarm, and its epoch if it is not the first: as epoch.Pin writes them. Empty: the first SN that answers tells.
	SwarmID string
	// Source of our own SVID and of the bundles that SNs are checked against. Not closed by the client.
	Source identity.Source
	// Domains are the accepted trust domains.
	Domains identity.Domains
	// OnWait is told why a call is not done yet, when that changes; nil: nobody is. It must not block.
	OnWait func(msg string)
	// OnLearn is told the swarm ID and the SNs when they change, so that they can be kept. May be nil; must not block.
	OnLearn func(swarmID string, sns []SN)
	// OnFollow is told the swarm and its epoch when it pins or follows a later epoch than the first. May be nil; must not block.
	OnFollow func(epoch.Pin)
	// OnStay is told why a later epoch that an SN shows is not followed. May be nil; must not block.
	OnStay func(sn, why string)
	// OnQuorum is told once that the SNs that answer have no quorum, with what they say and the remedy, and with "" when one has
	// taken a heartbeat again. OnWait is not told of it then. May be nil; must not block.
	OnQuorum func(lost, remedy string)
	// GiveUp has calls end when SNs say that they have no quorum and no other answers, instead of waiting for one.
	GiveUp bool
	// CallWait bounds each call that is no stream, in which several SNs may be tried; 0: only its context does.
	CallWait time.Duration
	// OnStray is told, once for each, of SNs that are of another swarm than the pinned one. May be nil; must not block.
	OnStray func(sn, swarmID string)
	// StrayWait is for how long SNs of another swarm are asked again while none of the pinned one answers. 0: each SN once.
	StrayWait time.Duration
	// Log gets what a debugging operator wants to see. Required.
	Log *slog.Logger
	// Dial opens the connections to SNs, on which TLS runs; nil: a net.Dialer does, with TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport replaces HTTP/2 over TLS in tests in memory; then Exporter must stand in for the TLS exporter.
	Transport http.RoundTripper
	// Exporter is used with Transport only.
	Exporter func() ([]byte, error)
}

// SN is what a list of SNs holds of one.
type SN struct {
	Name    string `json:"name"`    // empty if it is not known
	Address string `json:"address"` // HOST:PORT of its API
}

// Client speaks to one SN of the swarm at a time. Safe for concurrent use.
type Client struct {
	cfg         Config
	dir         *directory
	connections *connections
	registrar   *registrar // for our node
	strays      strays
	epochs      epochs
	verdict     quorumVerdict
	waits       waits
}

// New makes a client. It connects to nothing; the first call does.
func New(cfg Config) (*Client, error) {
	if len(cfg.SNs) == 0 {
		return nil, errors.New("no SN is known: name at least one as HOST:PORT")
	}
	for _, sn := range cfg.SNs {
		if _, _, err := net.SplitHostPort(sn); err != nil {
			return nil, fmt.Errorf("read SN address %q: want HOST:PORT: %w", sn, err)
		}
	}
	all := slices.Clone(cfg.SNs)
	for _, sn := range cfg.Kept {
		all = append(all, sn.Address)
	}
	var sns []string
	for _, sn := range all {
		if !slices.Contains(sns, sn) {
			sns = append(sns, sn)
		}
	}
	if cfg.Source == nil && cfg.Transport == nil {
		return nil, errors.New("a client needs a source of SVIDs")
	}
	if cfg.Log == nil {
		return nil, errors.New("a client needs a log")
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Client{
		cfg: cfg,
		dir: &directory{
			pin: pinned(cfg.SwarmID), first: slices.Clone(cfg.SNs), sns: sns, current: sns[0], moved: make(chan struct{}),
			onLearn: cfg.OnLearn, onFollow: cfg.OnFollow,
		},
		connections: &connections{cfg: cfg},
		verdict:     quorumVerdict{on: cfg.OnQuorum},
		waits:       waits{on: cfg.OnWait},
	}
	c.strays = strays{dir: c.dir, on: cfg.OnStray, wait: cfg.StrayWait}
	c.epochs = epochs{client: c}
	c.registrar = &registrar{client: c, registering: make(chan struct{}, 1)}
	return c, nil
}

// Close ends idle connections. Calls that run are not ended: end their contexts first.
func (c *Client) Close() error {
	c.connections.close()
	return nil
}

// SNs returns all SNs known now as host:port, the one in use first.
func (c *Client) SNs() []string { return c.dir.all() }

// Unreached is an SN whose API could not be dialled.
type Unreached struct {
	Name    string // of the node
	Failure reach.Failure
}

// Unreached are the SNs that could not be dialled when that was tried last, within a few minutes, of those that the swarm has a name for. One
// that refused once may have been about to start: it counts when it has refused again, and is dialled again meanwhile.
func (c *Client) Unreached() []Unreached {
	var out []Unreached
	for _, sn := range c.dir.named() {
		if f := c.connections.shut(sn.Address); f.Err != nil {
			out = append(out, Unreached{sn.Name, f})
		}
	}
	return out
}

// PinnedSwarmID returns the swarm ID that is pinned, or "" before the first answer.
func (c *Client) PinnedSwarmID() string { return c.dir.pinned().SwarmID }

// Pin is the swarm and the epoch that this client follows, or no swarm before the first answer.
func (c *Client) Pin() epoch.Pin { return c.dir.pinned() }

// NoQuorum returns what SNs said of their quorum when it was lost, or "" while there is one: since an SN has passed a heartbeat on.
func (c *Client) NoQuorum() string { return c.verdict.get() }

// Doubt leaves the SN in use for another, if there is one and it has not done so just before, and returns the address of the one
// that was in use: what it says does not hold.
func (c *Client) Doubt() string { return c.dir.doubtCurrent() }

// numbers are words with digits in front: times, durations.
var numbers = regexp.MustCompile(`[0-9][0-9a-zµ.:+-]*`)

// waits tells why calls wait.
type waits struct {
	on func(msg string) // nil: nobody is told

	mu   sync.Mutex
	last string
}

// tell tells why we wait, once per reason; "" means that we don't any more. A reason that tells the time is the same one a
// second later.
func (w *waits) tell(msg string) {
	shape := numbers.ReplaceAllString(msg, "0")
	w.mu.Lock()
	changed := w.last != shape
	w.last = shape
	w.mu.Unlock()
	if changed && msg != "" && w.on != nil {
		w.on(msg)
	}
}
