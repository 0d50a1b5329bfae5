package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/version"
)

// Option is that of nodes which says where metrics are served.
const Option = "metrics"

// Path is where metrics are served.
const Path = "/metrics"

// Bounds of what callers may cost.
const (
	maxConns  = 16
	maxHeader = 8 << 10 // bytes
	maxAtOnce = 4       // answers that are made at a time
	readTime  = 5 * time.Second
	writeTime = 15 * time.Second
	idleTime  = 30 * time.Second
	closeTime = 3 * time.Second // for answers that are being made when the node ends
)

// Config is what a Server needs.
type Config struct {
	Address string // HOST:PORT; an empty host is every address of this machine. Empty: nobody asked for metrics
	Local   bool   // Address is a container's, and published on loopback of its host
	Name    string // of the node
	Role    identity.Role
	Health  func() health.Report   // nil: this is no node
	Traffic *Traffic               // of the node; nil: this is none
	SVID    func() identity.Status // of what is no node and has an identity all the same; else nil
	Listen  func(ctx context.Context, network, address string) (net.Listener, error)
	Log     *slog.Logger
}

// Server serves the metrics of one node. A nil *Server is one that nobody asked for: all its methods do nothing, and return what they were
// given. They are safe for concurrent use.
type Server struct {
	cfg      Config
	registry *prometheus.Registry
	http     *http.Server
	done     sync.WaitGroup
	session  *sessions     // nil: the node has none
	quit     chan struct{} // closed by Close
}

// Open begins to serve, with what is known of the process itself. The caller closes it. Without an address there is no server: it returns nil.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Address == "" {
		return nil, nil
	}
	if err := checkFree(ctx, cfg.Listen, cfg.Address); err != nil {
		return nil, err
	}
	ln, err := cfg.Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	s := &Server{cfg: cfg, registry: prometheus.NewRegistry(), quit: make(chan struct{})}
	s.register(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), ofProcess(cfg))
	if cfg.Health != nil {
		s.register(ofHealth(cfg.Health))
	}
	if cfg.Traffic != nil {
		s.register(cfg.Traffic)
	}
	if cfg.SVID != nil {
		s.register(ofSVID(cfg.SVID))
	}
	s.http = &http.Server{
		Handler: s.handler(ln.Addr()), ReadHeaderTimeout: readTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	s.done.Go(func() {
		if err := s.http.Serve(netutil.LimitListener(ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			cfg.Log.Warn("metrics are no longer served", "err", err)
		}
	})
	cfg.Log.Info("metrics are served", "url", "http://"+ln.Addr().String()+Path)
	return s, nil
}

// Close ends serving and waits for that, and for answers that are being made, if they don't take long.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	close(s.quit)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.done.Wait()
	return err
}

// register adds what tells of a part of the node. A part that panics when it is asked fails that answer, not the node.
func (s *Server) register(all ...prometheus.Collector) {
	for _, c := range all {
		s.registry.MustRegister(guarded{c})
	}
}

// guarded is a collector that does not panic.
type guarded struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (g guarded) Collect(to chan<- prometheus.Metric) {
	defer func() {
		if p := recover(); p != nil {
			to <- prometheus.NewInvalidMetric(desc("broken", "A part of the node that could not be asked."), fmt.Errorf("a part of this node panicked when it was asked, please report it: %v", p))
		}
	}()
	g.Collector.Collect(to)
}

// checkFree fails with a remedy when there can be no listener at an address.
func checkFree(ctx context.Context, listen address.Listen, at string) error {
	host, port, err := address.ParseListen(at)
	if err != nil {
		return fmt.Errorf("--%s %.260s: %w", Option, at, err)
	}
	return listen.CheckFree(ctx, host, Option, port)
}

// Look is a doctor's look at where a node is to serve metrics.
func Look(ctx context.Context, at string) []doctor.Row {
	if at == "" {
		return nil
	}
	if err := checkFree(ctx, new(net.ListenConfig).Listen, at); err != nil {
		return doctor.Errors("port", err, "give another one with --"+Option)
	}
	return []doctor.Row{doctor.Well("port", fmt.Sprintf("%s is free for metrics (--%s)", at, Option))}
}

// handler answers GET on Path alone. On loopback it answers nobody who names it otherwise than by address or as localhost: a web page whose
// name was made to lead here would read what is for this machine's users. A listener on all addresses is on loopback too.
func (s *Server) handler(at net.Addr) http.Handler {
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: maxAtOnce, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
	})
	port := 0
	if tcp, ok := at.(*net.TCPAddr); ok {
		port = tcp.Port
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		if (s.cfg.Local || onLoopback(r)) && !byAddress(r.Host) {
			http.Error(w, fmt.Sprintf("ask for these metrics by address, such as http://127.0.0.1:%d%s", port, Path), http.StatusForbidden)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "metrics are at GET "+Path, http.StatusNotFound)
	})
	return mux
}

// onLoopback reports whether a request came to an address of this machine alone.
func onLoopback(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// byAddress reports whether a request's host is an address or localhost.
func byAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// desc describes a metric of ours.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("swarmd_"+name, help, labels, nil)
}

// gauge is a value as of now. One that can't be made is told of in the answer.
func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	constant(to, d, prometheus.GaugeValue, v, labels)
}

// counter is a value that goes up, until what it counts begins anew.
func counter(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	constant(to, d, prometheus.CounterValue, v, labels)
}

func constant(to chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, v float64, labels []string) {
	m, err := prometheus.NewConstMetric(d, kind, v, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	to <- m
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// described is what a collector that only reads consists of.
type described struct {
	descs   []*prometheus.Desc
	collect func(to chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (d described) Describe(to chan<- *prometheus.Desc) {
	for _, x := range d.descs {
		to <- x
	}
}

// Collect implements prometheus.Collector.
func (d described) Collect(to chan<- prometheus.Metric) { d.collect(to) }

// ofProcess says what this process is.
func ofProcess(cfg Config) prometheus.Collector {
	build := desc("build_info", "What this binary was built as; the value is 1.", "version", "revision", "goversion")
	node := desc("node_info", "Which node this is; the value is 1.", "name", "role")
	v := version.Read()
	return described{[]*prometheus.Desc{build, node}, func(to chan<- prometheus.Metric) {
		gauge(to, build, 1, v.Version, v.Commit, v.Go)
		gauge(to, node, 1, cfg.Name, string(cfg.Role))
	}}
}
