package runjob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/stopfile"
)

// maxPage is how many bytes of a page are read.
const maxPage = 64 << 10

// question is how a member is asked whether it is ready. The zero value: it is when it runs.
type question struct {
	Command []string `json:",omitempty"` // that ends with 0, as the runtime runs it
	Page    string   `json:",omitempty"` // HOST:PORT/PATH in JSON
	Count   string   `json:",omitempty"` // the name of a number there, which is
	AtLeast int      `json:",omitempty"` // so much
	Listens string   `json:",omitempty"` // HOST:PORT
	Here    bool     `json:",omitempty"` // that is in this host's network
	Apart   bool     `json:",omitempty"` // what is asked is in a network of the engine's
	Network string   `json:",omitempty"` // its name, if that is one of the host's owner
	Bridge  []string `json:",omitempty"` // the addresses of that network's bridge at the engine's host; none: it has none
	Exits   bool     `json:",omitempty"` // its exit counts after its run was asked to end
	Period  time.Duration
	Timeout time.Duration
}

// questionOf is the one to a member. Its command is as the job has it.
func questionOf(m member) question {
	r := m.program.Ready
	q := question{Command: r.Command, Period: r.Period, Timeout: r.Timeout, Exits: m.job.Compat == jobfile.OCI}
	at := func(rank, port int) string {
		return net.JoinHostPort(m.placed.Members[rank].Address, strconv.Itoa(port))
	}
	if r.Port > 0 {
		q.Listens = at(m.program.Rank, r.Port)
	}
	if p := r.Page; p != (framework.Page{}) {
		q.Page, q.Count, q.AtLeast = at(p.Rank, p.Port)+p.Path, p.Count, p.AtLeast
	}
	return q
}

// asks reports whether there is something to ask.
func (q question) asks() bool { return len(q.Command) > 0 || q.Page != "" || q.Listens != "" }

// prober remembers of members whether they were ready once, and looks for what ends their runs. The zero value knows of none.
type prober struct {
	stops stopfile.Looks // for what ends their runs

	mu  sync.Mutex
	all map[work.Label]*probed
}

type probed struct {
	ready bool
	why   string    // words to why it is not, if there is something to be done
	vain  int       // how often it was asked and was not
	next  time.Time // not before this is it asked again
}

// ready reports whether a member is ready, and why it is not if something is to be done about that. It asks if it is time; run runs a question's command.
func (p *prober) ready(ctx context.Context, l work.Label, q question, run func(ctx context.Context, command []string) error) (bool, string) {
	if !q.asks() {
		return true, ""
	}
	p.mu.Lock()
	if p.all == nil {
		p.all = map[work.Label]*probed{}
	}
	if p.all[l] == nil {
		p.all[l] = &probed{}
	}
	x := *p.all[l]
	p.mu.Unlock()
	if now := time.Now(); !x.ready && !now.Before(x.next) {
		ctx, cancel := context.WithTimeout(ctx, q.Timeout)
		x.ready, x.why = q.ask(ctx, run)
		cancel()
		if x.vain++; x.vain > 1 && !x.ready && x.why == "" { // programs take their time to begin
			x.why = q.inVain()
		}
		x.next = now.Add(q.Period)
		p.mu.Lock()
		p.all[l] = &x
		p.mu.Unlock()
	}
	return x.ready, x.why
}

// forget forgets a member.
func (p *prober) forget(l work.Label) {
	p.stops.Forget(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, l)
}

// ask asks once.
func (q question) ask(ctx context.Context, run func(ctx context.Context, command []string) error) (ready bool, why string) {
	host, _, _ := strings.Cut(cmp.Or(q.Listens, q.Page), "/")
	far := q.outOfReach(host)
	switch {
	case len(q.Command) > 0:
		err := run(ctx, q.Command)
		if errors.Is(err, errOutlasts) || errors.Is(err, errEnded) {
			why = err.Error()
		}
		return err == nil, why
	case far != "" && q.Network != "": // another machine may have that address in a network of this host
		return false, far
	case q.Listens != "":
		if listens(ctx, q.Listens) {
			return true, ""
		}
		if q.Here {
			why = loopbackOnly(ctx, q.Listens)
		}
		return false, cmp.Or(why, far)
	}
	if q.pageSays(ctx) {
		return true, ""
	}
	return false, far
}

// inVain says what a member has not answered.
func (q question) inVain() string {
	switch {
	case len(q.Command) > 0:
		return "its ready.command has not ended with 0 yet"
	case q.Listens != "":
		return fmt.Sprintf("nothing answers on %s yet: have the program listen there, on ${SWARM_NODE_IP} or 0.0.0.0 and not on loopback", q.Listens)
	case q.Count != "":
		return fmt.Sprintf("http://%s does not say yet that %s is %d", q.Page, q.Count, q.AtLeast)
	}
	return fmt.Sprintf("there is no page http://%s yet", q.Page)
}

// outOfReach says so of a member that did not answer because this process is not where the engine's networks are, as in a container of its own or
// with an engine on another machine. A network that hosts share is reached by its bridge alone: that this host has an address in its subnet may be
// of another network with the same one, where that address is another machine's.
func (q question) outOfReach(address string) string {
	a, err := netip.ParseAddrPort(address)
	own := ownAddresses()
	switch {
	case !q.Apart:
		return ""
	case q.Network != "" && slices.ContainsFunc(own, func(has netip.Prefix) bool { return slices.Contains(q.Bridge, has.Addr().String()) }):
		return ""
	case q.Network != "":
		return fmt.Sprintf("its host can't ask %s, as it is not in network %s itself: run the job with ready.command, or with network: host", address, q.Network)
	case err != nil || slices.ContainsFunc(own, func(has netip.Prefix) bool { return has.Contains(a.Addr()) }):
		return ""
	}
	return fmt.Sprintf("its host can't ask %s, as its SWOP is not in the network of its container engine: run that SWOP beside the engine and in no container, or the job with network: host or ready.command", address)
}

// ownAddresses are those of this host's interfaces, with their subnets, as far as they can be known.
func ownAddresses() (all []netip.Prefix) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, x := range found {
		if p, err := netip.ParsePrefix(x.String()); err == nil {
			all = append(all, p)
		}
	}
	return all
}

func listens(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// loopbackOnly says so of a program of this host that listens where other members don't reach it.
func loopbackOnly(ctx context.Context, address string) string {
	host, port, err := net.SplitHostPort(address)
	if a, bad := netip.ParseAddr(host); err != nil || bad != nil || a.IsLoopback() || !listens(ctx, net.JoinHostPort("127.0.0.1", port)) {
		return ""
	}
	return fmt.Sprintf("something listens to port %s of this host's loopback alone, where no other member reaches it: have the program listen on ${SWARM_NODE_IP}", port)
}

// pages asks pages of members. They are not to lead elsewhere, and are in no proxy's way.
var pages = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxPage},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (q question) pageSays(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+q.Page, nil)
	if err != nil {
		return false
	}
	res, err := pages.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err != nil || res.StatusCode != http.StatusOK {
		return false
	}
	if q.Count == "" {
		return true
	}
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return false
	}
	n, is := all[q.Count].(float64)
	return is && n >= float64(q.AtLeast)
}
