// Package dashboard serves the page of `swarmctl dashboard` and what it shows: documents, which are what swarmctl's commands print as
// JSON, each by itself and as a stream of what changes. It lets in the browser of whoever has its one-time address, and nobody else.
package dashboard

import (
	"context"
	"crypto/tls"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"time"
)

// Document is what a page shows under a name: either a value or an error is there.
type Document struct {
	Name   string          `json:"name" doc:"of the document, such as nodes or contract/NAME"`
	At     string          `json:"at" doc:"when the swarm was asked; RFC 3339, UTC"`
	Value  json.RawMessage `json:"value,omitempty" doc:"what it holds, by its name"`
	Error  string          `json:"error,omitempty" doc:"why there is no value, in one line"`
	Remedy string          `json:"remedy,omitempty" doc:"what to do about it, in one line"`
	Gone   bool            `json:"gone,omitempty" doc:"true: the swarm answers that there is no such thing; else it may come when it is asked for again"`

	past *past // of a history on a stream: what is known, of which the value is the newest part
}

// Link says how the dashboard and the swarm stand.
type Link struct {
	State   string `json:"state" doc:"live; stale: what is shown is what was known last; ended: so it is, and nothing else will come"`
	SN      string `json:"sn" doc:"the SN that is asked, by name or address; empty: none is yet"`
	Since   string `json:"since" doc:"when the state or the SN changed; RFC 3339, UTC"`
	Problem string `json:"problem" doc:"why it is not live, in one line; else empty"`
	Remedy  string `json:"remedy" doc:"what to do about it, in one line"`
}

// Act is what a page asks to have done.
type Act struct {
	Do     string `json:"do" doc:"approve or refuse"`
	Task   string `json:"task" doc:"its name"`
	Host   string `json:"host" doc:"on which it waits"`
	Digest string `json:"digest" doc:"of the task, as the page has shown it"`
	Reason string `json:"reason" doc:"of a refusal, in words"`
}

// Acted says what came of that: either said or error is there.
type Acted struct {
	Said   string `json:"said,omitempty" doc:"what was done, in one line"`
	Error  string `json:"error,omitempty" doc:"why nothing was, in one line"`
	Remedy string `json:"remedy,omitempty" doc:"what to do about it"`
}

// Kind says how a document is made.
type Kind struct {
	There    bool // there may be one
	OnDemand bool // it is made when a page asks, and no stream has it
	Slow     bool // it may take minutes, and others go on meanwhile
	Link     bool // it says of the whole swarm whether it can be asked
	Seldom   bool // a node is asked for it, which costs it something; where it refuses still more seldom
	Agreed   bool // of the swarm's state alone: while Follow tells of changes it is seldom asked for without one
	Apart    bool // of nodes, not of what they agree on: a change that Follow tells of is no reason to ask for it
}

// Documents are what there is to show. All methods are safe for concurrent use.
type Documents interface {
	// Kind says how a document of this name is made.
	Kind(name string) Kind
	// Get makes a document anew; behind the name of a history may stand ?points=N&after=M, how many rounds are asked for, and behind which one. Beside a value an error says what is wrong with it: it is older than the swarm, as without a quorum.
	Get(ctx context.Context, name string) (json.RawMessage, error)
	// Link names the SN that is asked, with an error while no question can have an answer, such as for an identity that has expired.
	Link() (sn string, err error)
	// Follow calls changed when the swarm's state may have changed, until ctx ends or it can't follow.
	Follow(ctx context.Context, changed func()) error
	// Act has something done, and says in a line what was.
	Act(ctx context.Context, a Act) (said string, err error)
	// Logs calls line with the last lines of a log and those that follow, one call at a time, until ctx ends or no more will come.
	Logs(ctx context.Context, of LogOf, line func(LogLine)) error
}

// Config is what a server needs.
type Config struct {
	Documents Documents
	// Hosts are what browsers may call this server, with the port; with Certificate also what that is valid for.
	Hosts       []string
	Certificate *tls.Certificate // nil: no TLS, for loopback
	Actions     bool             // pages may have things done
	// Fetch gives out a model: it calls begin once, when it has the first bytes, and writes the file; nil: none are given out. An error says that the file is not whole, or not good.
	Fetch func(ctx context.Context, of ModelOf, begin func(name string, size int64) io.Writer) error
	// Invite is told each address that lets one browser in; it has a secret in it.
	Invite func(address string)
	// Ended is what pages are told when Serve ends: its problem and its remedy.
	Ended Link
	Now   func() time.Time
	// Page has the files of the page; nil: those that were built in.
	Page fs.FS
}

//go:embed page
var built embed.FS

// Bounds of what browsers may take.
const (
	maxConnections = 256
	maxStreams     = 16
	maxRequests    = 100 // at a time by one connection of HTTP/2
	maxHeader      = 16 << 10
	maxBody        = 8 << 10
	maxName        = 300 // bytes of a document's name
	maxWatched     = 64  // documents of a stream
	headerTime     = 5 * time.Second
	idleTime       = 2 * time.Minute
	writeTime      = 20 * time.Second // for one answer, or one event
	askTime        = 25 * time.Second // for one document
	slowTime       = 10 * time.Minute // for a slow one
	drainTime      = 2 * time.Second
)

// Server is a dashboard.
type Server struct {
	cfg       Config
	doors     doors
	hub       *hub
	slots     chan struct{} // of streams
	following chan struct{} // logs
	fetching  chan struct{} // models
}

// New returns a server; Serve runs it.
func New(cfg Config) *Server {
	if cfg.Page == nil {
		cfg.Page, _ = fs.Sub(built, "page") // the name is good
	}
	return &Server{cfg: cfg, hub: newHub(cfg.Documents, cfg.Now), slots: make(chan struct{}, maxStreams), following: make(chan struct{}, maxLogs), fetching: make(chan struct{}, maxFetched)}
}

// Serve answers on ln, which it closes, until ctx ends; it returns nil then.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.hub.run(running)
	}()
	defer func() { stop(); <-asked }()
	srv := &http.Server{
		Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return running }, ConnContext: withGuest,
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRequests},
		ErrorLog: log.New(io.Discard, "", 0), // browsers that break connections off; addresses have secrets
	}
	ln = &guests{Listener: ln, max: maxConnections}
	scheme := "http://"
	if s.cfg.Certificate != nil {
		scheme = "https://"
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*s.cfg.Certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}) // h2: a browser has all its pages by one connection
	}
	s.doors.invite = func(token string) { s.cfg.Invite(scheme + s.cfg.Hosts[0] + "/?token=" + token) }
	s.doors.open()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve the dashboard on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		_ = srv.Close() // it cuts what would not end
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the dashboard on %s: %w", ln.Addr(), err)
	}
	return nil
}
