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
	"strings"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	requestWithin = 30 * time.Second // one request, also of a rank whose host is busy
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
	refused map[netip.Addr]bool // was said
}

// maxSaid bounds how many strangers are named.
const maxSaid = 16

// Serve answers on a listener, which it closes, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	limit := 16 + 8*len(s.Ranks) // each rank has one connection at a time for each context that it makes
	h := &http.Server{
		Handler: s, ReadTimeout: requestWithin, WriteTimeout: requestWithin, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	h.SetKeepAlivesEnabled(false) // Horovod's client connects for each request
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	err := h.Serve(&limited{Listener: l, from: s.from, free: make(chan struct{}, limit)})
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the rendezvous: %w", err)
}

// from reports whether an address is a rank's, and says once of each that is not that it is refused.
func (s *Server) from(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	ip := at.Addr().Unmap().WithZone("")
	for _, r := range s.Ranks {
		if err == nil && (r == ip || r.IsLoopback() && ip.IsLoopback()) { // whatever loopback's address, it comes from this machine
			return true
		}
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
	return false
}

// ServeHTTP implements http.Handler: PUT, GET and DELETE of /SCOPE/KEY.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope, key, ok := scopeAndKey(r.URL.Path)
	if !ok {
		http.Error(w, "want /SCOPE/KEY", http.StatusBadRequest)
		return
	}
	switch r.Method {
	case http.MethodGet:
		value, is := s.Store.Get(scope, key)
		if !is {
			http.Error(w, "nothing has that key", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(value) // a rank that is gone asks no more
	case http.MethodPut:
		value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.Store.maxValue)))
		if err == nil {
			err = s.Store.Put(scope, key, value)
		}
		if err != nil {
			s.say(fmt.Sprintf("refused a value that a rank has put into the rendezvous under %s: %v", text.Line(scope+"/"+key), err))
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	case http.MethodDelete:
		s.Store.Delete(scope, key)
	default:
		http.Error(w, "want GET, PUT or DELETE", http.StatusMethodNotAllowed)
	}
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

// limited is a listener for ranks alone, that has so many connections at a time as there is room in free.
type limited struct {
	net.Listener
	from func(net.Addr) bool
	free chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.from(c.RemoteAddr()) {
			_ = c.Close()
			continue
		}
		l.free <- struct{}{}
		return &counted{Conn: c, free: l.free}, nil
	}
}

// counted is a connection that gives its room back once.
type counted struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { <-c.free })
	return c.Conn.Close()
}
