package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	requestWithin = 30 * time.Second // one request, also of a rank whose host is busy
	headerWithin  = 5 * time.Second  // what says what is asked
	maxHeader     = 8 << 10          // bytes
	maxPath       = 2 + maxScope + maxKey
)

// Server answers ranks by a store. Horovod's client proves nothing, so that addresses alone say who asks.
type Server struct {
	Store *Store
	// Ranks are the addresses of all ranks: others are refused.
	Ranks []netip.Addr
	// Say has a line for whoever reads the output of rank 0; nil: nobody does.
	Say func(line string)

	mu      sync.Mutex
	refused map[netip.Addr]bool // was reported
	said    int                 // reports of what ranks were refused
}

// maxSaid bounds how many strangers are named, and in how many lines what ranks were refused: the program of rank 0 has the same output.
const maxSaid = 16

// nobodyHas is the answer for a key without a value, by which other ranks know the rendezvous.
const nobodyHas = "nothing has that key"

// Serve answers on a listener, which it closes, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerWithin, ReadTimeout: requestWithin, WriteTimeout: requestWithin, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	h.SetKeepAlivesEnabled(false) // Horovod's client connects for each request
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	err := h.Serve(&limited{Listener: l, from: s.from, open: map[netip.Addr]int{}})
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the rendezvous: %w", err)
}

// from is the address of ranks from which a connection comes, and how many it may have: each rank there has one at a time for each context that it makes.
// It says once of each other address that it is refused, which may have none.
func (s *Server) from(a string) (ip netip.Addr, most int) {
	ip = remoteIP(a)
	ranks := 0
	for _, r := range s.Ranks {
		if isAt(r, ip) {
			ranks++
		}
	}
	if ranks > 0 {
		return one(ip), 16 + 8*ranks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused == nil {
		s.refused = map[netip.Addr]bool{}
	}
	if !s.refused[ip] && len(s.refused) < maxSaid {
		s.refused[ip] = true
		s.say(fmt.Sprintf("refused a connection of %s to the rendezvous, which is the address of no member: if a member's host has it, start its SWOP with that --host-ip", ip))
	}
	return ip, 0
}

// remoteIP is the address in one with a port; the zero value: there is none.
func remoteIP(a string) netip.Addr {
	at, _ := netip.ParseAddrPort(a)
	return at.Addr().Unmap().WithZone("")
}

// isAt reports whether a rank's connections come from an address. Whatever loopback's address, they come from this machine.
func isAt(rank, ip netip.Addr) bool { return rank == ip || rank.IsLoopback() && ip.IsLoopback() }

// one is an address, and one for all of loopback's.
func one(ip netip.Addr) netip.Addr {
	if ip.IsLoopback() {
		return netip.IPv6Loopback()
	}
	return ip
}

// may reports whether who is at an address may change a key: in the scope of all, what a rank says of itself is that rank's.
func (s *Server) may(scope, key, at string) bool {
	number, is := strings.CutPrefix(key, "rank_")
	if scope != scopeOfAll || !is && !isRank(key) {
		return true
	}
	n, err := strconv.Atoi(number)
	return err == nil && n >= 0 && n < len(s.Ranks) && isAt(s.Ranks[n], remoteIP(at))
}

// scopeOfAll is that of Horovod in which a key's number is a rank.
const scopeOfAll = "global"

// ServeHTTP implements http.Handler: PUT, GET and DELETE of /SCOPE/KEY.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope, key, ok := scopeAndKey(r.URL.Path)
	if !ok {
		http.Error(w, "want /SCOPE/KEY", http.StatusBadRequest)
		return
	}
	if r.Method != http.MethodGet && !s.may(scope, key, r.RemoteAddr) {
		s.sayOf(scope, key, fmt.Errorf("%.64s is the address of another rank", r.RemoteAddr))
		http.Error(w, "that is of a rank at another address", http.StatusForbidden)
		return
	}
	by := one(remoteIP(r.RemoteAddr))
	switch r.Method {
	case http.MethodGet:
		value, is := s.Store.Get(scope, key)
		if !is {
			http.Error(w, nobodyHas, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(value) // a rank that is gone asks no more
	case http.MethodPut:
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.Store.maxValue)))
		if err == nil {
			err = s.Store.Put(scope, key, by, value)
		}
		s.answer(w, scope, key, err)
	case http.MethodDelete:
		s.answer(w, scope, key, s.Store.Delete(scope, key, by))
	default:
		http.Error(w, "want GET, PUT or DELETE", http.StatusMethodNotAllowed)
	}
}

// answer is that to what would change a key; nil: it has.
func (s *Server) answer(w http.ResponseWriter, scope, key string, err error) {
	if err == nil {
		return
	}
	s.sayOf(scope, key, err)
	status := http.StatusRequestEntityTooLarge
	if errors.Is(err, errOther) || errors.Is(err, errOfOther) {
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
}

// sayOf reports what a rank was refused, in maxSaid lines at most.
func (s *Server) sayOf(scope, key string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said++; s.said > maxSaid {
		return
	}
	last := ""
	if s.said == maxSaid {
		last = "; further refusals are not reported"
	}
	s.say(fmt.Sprintf("refused a value that a rank has put into the rendezvous under %s, or removed there: %v%s", text.Line(scope+"/"+key), why, last))
}

func (s *Server) say(line string) {
	if s.Say != nil {
		s.Say(line)
	}
}

// scopeAndKey takes the path of a request apart.
func scopeAndKey(path string) (scope, key string, ok bool) {
	if len(path) > maxPath {
		return "", "", false
	}
	scope, key, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return scope, key, ok && scope != "" && key != "" && len(scope) <= maxScope && len(key) <= maxKey && !strings.Contains(key, "/")
}

// limited is a listener for ranks alone, with a bounded number of connections from each address at a time: one that keeps many open leaves the others theirs.
type limited struct {
	net.Listener
	from func(remote string) (at netip.Addr, most int)

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		at, most := l.from(c.RemoteAddr().String())
		if l.add(at, 1) > most {
			l.add(at, -1)
			_ = c.Close()
			continue
		}
		return &counted{Conn: c, ended: func() { l.add(at, -1) }}, nil
	}
}

// add changes how many connections an address has, and returns that.
func (l *limited) add(at netip.Addr, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[at] += n; l.open[at] == 0 {
		delete(l.open, at)
		return 0
	}
	return l.open[at]
}

// counted is a connection that says once that it has ended.
type counted struct {
	net.Conn
	ended func()
	once  sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(c.ended)
	return c.Conn.Close()
}
