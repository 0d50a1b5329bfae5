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
	"strconv"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
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
	cfg Config

	// mu guards what follows.
	mu         sync.Mutex
	pin        epoch.Pin
	asked      time.Time // when SNs were last asked whether to follow a later epoch
	first      []string  // as configured: never forgotten
	sns        []string  // all known, host:port
	told       *learned  // what OnLearn was told last, nil before
	strays     strays
	current    string
	moved      chan struct{} // closed when current changes
	refresh    bool          // we moved: ask the next SN for the list
	lastWait   string
	quorumLost string // what SNs say of their quorum, "" while they have one
	link       *link  // connections with the SVID of now
	token      string
	speaker    *Registration  // what Register was given, nil before
	leaving    bool           // LeaveNode was called: nothing registers again
	bearing    *x509svid.SVID // that the last registration was signed with
	wanted     bool           // the swarm asks for another registration
	renewed    time.Time      // when Renew registered last
	doubted    time.Time      // when Doubt left an SN last
	doubt      string         // that SN

	// registering serialises registrations, so that many refused calls register once.
	registering sync.Mutex
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
	return &Client{
		cfg: cfg, pin: pinned(cfg.SwarmID),
		first: slices.Clone(cfg.SNs), sns: sns, current: sns[0],
		moved: make(chan struct{}),
	}, nil
}

// Close ends idle connections. Calls that run are not ended: end their contexts first.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
	return nil
}

// SNs returns all SNs known now as host:port, the one in use first.
func (c *Client) SNs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []string{c.current}
	for _, sn := range c.sns {
		if sn != c.current {
			out = append(out, sn)
		}
	}
	return out
}

// PinnedSwarmID returns the swarm ID that is pinned, or "" before the first answer.
func (c *Client) PinnedSwarmID() string { return c.pinned().SwarmID }

// where returns the SN in use, and a channel that is closed when another one is.
func (c *Client) where() (string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, c.moved
}

// moveFrom goes to the next SN unless somebody did so already. It returns how many SNs are known.
func (c *Client) moveFrom(sn string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == sn && len(c.sns) > 1 {
		i := slices.Index(c.sns, sn)
		c.goLocked(c.sns[(i+1)%len(c.sns)])
	}
	return len(c.sns)
}

// goLocked goes to an SN.
func (c *Client) goLocked(sn string) {
	c.current = sn
	c.refresh = true
	close(c.moved)
	c.moved = make(chan struct{})
}

// doubtAgain is the least time between two SNs that are left because their word does not hold.
const doubtAgain = 30 * time.Second

// Doubt leaves the SN in use for another, if there is one and it has not done so just before, and returns the address of the one
// that was in use: what it says does not hold.
func (c *Client) Doubt() string {
	c.mu.Lock()
	sn, soon := c.current, time.Since(c.doubted) < doubtAgain
	if !soon {
		c.doubted, c.doubt = time.Now(), sn
	}
	c.mu.Unlock()
	if !soon {
		c.moveFrom(sn)
	}
	return sn
}

// doubts tells whether the word of an SN was found not to hold.
func (c *Client) doubts(sn string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sn != "" && c.doubt == sn
}

// learned is what an SN has told of the swarm.
type learned struct {
	swarmID string
	sns     []SN
}

// learn pins the swarm ID and replaces the list of SNs. The configured ones stay at its end: the swarm may have
// forgotten how we reach it.
func (c *Client) learn(swarmID, named string, nodes []*swarmv1.Node) {
	sns := reachable(nodes)
	c.mu.Lock()
	var list []string
	for _, sn := range sns {
		list = append(list, sn.Address)
	}
	for _, sn := range append(slices.Clone(c.first), c.current) {
		if !slices.Contains(list, sn) {
			list = append(list, sn)
		}
	}
	first := c.pin.SwarmID == ""
	if first {
		c.pin = epoch.First(swarmID)
		if p := pinned(named); p.SwarmID == swarmID {
			c.pin = p
		}
	}
	pin := c.pin
	changed := c.told == nil || c.told.swarmID != swarmID || !slices.Equal(c.told.sns, sns)
	c.told = &learned{swarmID, sns}
	c.sns, c.refresh = list, false
	c.mu.Unlock()
	if first {
		c.tellFollow(pin)
	}
	if changed && c.cfg.OnLearn != nil {
		c.cfg.OnLearn(swarmID, sns)
	}
}

// reachable are the SNs of which an API address is known.
func reachable(nodes []*swarmv1.Node) []SN {
	var out []SN
	for _, n := range nodes {
		if n.GetHost() != "" && n.GetApiPort() != 0 && n.GetApiPort() <= 65535 {
			out = append(out, SN{n.GetName(), hostPort(n.GetHost(), n.GetApiPort())})
		}
	}
	return out
}

// numbers are words with digits in front: times, durations.
var numbers = regexp.MustCompile(`[0-9][0-9a-zµ.:+-]*`)

// wait tells why we wait, once per reason; "" means that we don't any more. A reason that tells the time is the same one a
// second later.
func (c *Client) wait(msg string) {
	shape := numbers.ReplaceAllString(msg, "0")
	c.mu.Lock()
	changed := c.lastWait != shape
	c.lastWait = shape
	c.mu.Unlock()
	if changed && msg != "" && c.cfg.OnWait != nil {
		c.cfg.OnWait(msg)
	}
}

func hostPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}
