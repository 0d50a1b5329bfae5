package swci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
)

// dashboardAddress is where a dashboard is served unless told otherwise.
const dashboardAddress = "127.0.0.1:30309"

func dashboardCommands() []*Command {
	return []*Command{{
		Pattern: "dashboard", Group: "Watch",
		Summary: "Show the swarm in a browser",
		Details: "Serves a page on this machine that shows the swarm as it changes: nodes, contracts and their curves, models, tasks, jobs and events. It asks the swarm as any other command does, with your identity and your rights, and sends nothing anywhere else. It prints an address that lets in one browser, once, and another one as soon as that was used. It ends with Ctrl-C.\n\n" +
			"The page only shows, unless --actions is given: then whoever uses the browser may approve and refuse tasks in your name. Programs of other users of this machine reach the page too, and are not let in without the address, whatever cookies they see: keep it to yourself.\n\n" +
			"Each model can be verified on the page: swarmctl reads the ledger of an SN and checks that its records form a chain, and with --bundle the signatures too, those behind the events as well, as \"verify ledger\" does with a copy. Where a contract lets models out, the page saves one that nodes hold as a file, as \"get model\" does: the ledger records that as yours.\n\n" +
			"On another address than loopback, --listen needs --page-cert and --page-key, and --actions is refused.",
		Example: "dashboard",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: dashboardAddress, Usage: "`ADDRESS:PORT` of this machine"},
			&cli.StringFlag{Name: "page-cert", Usage: "PEM `FILE` with the certificate that browsers are shown, with those that signed it"},
			&cli.StringFlag{Name: "page-key", Usage: "PEM `FILE` with its key"},
			&cli.StringSliceFlag{Name: "bundle", Usage: "PEM `FILE` with CA certificates that signed when the swarm was founded, for signatures in the ledger; repeatable"},
			&cli.BoolFlag{Name: "actions", Usage: "let the page approve and refuse tasks, in your name"},
			metricsFlag("it"),
		},
		Run: runDashboard,
	}}
}

func runDashboard(ctx context.Context, s *Session, args Args) error {
	if s.JSON {
		return exit.New(exit.Usage, "leave out -o json: its documents are at /api/doc/NAME", "dashboard: it has no end, and so no JSON")
	}
	cfg, listen, err := pageConfig(args.Opts)
	if err != nil {
		return err
	}
	judge := audit.Options{Unsigned: true}
	if args.Opts.IsSet("bundle") {
		if judge, err = auditBy(args.Opts, s.Env.Getenv); err != nil {
			return err
		}
	}
	target, err := s.target(args.Opts)
	if err != nil {
		return err
	}
	ln, err := listenForPage(ctx, listen)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }() // Serve has closed it, if it came to that
	cfg.Invite = func(address string) { fmt.Fprintf(s.Env.Stdout, "dashboard: %s\n", address) }
	cfg.Ended = dashboard.Link{Problem: "swarmctl dashboard was ended", Remedy: "start it again, and open the address that it prints"}
	s.say("each address lets one browser in, once; until Ctrl-C")
	docs, done, err := openDocuments(ctx, s, target, cfg.Actions, judge)
	if err != nil {
		return err
	}
	defer done()
	m, err := openMetrics(ctx, s, args.Opts, "dashboard", docs.identity)
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }() // its readers have gone by then, or are cut
	server := docs.server(cfg, ln)
	m.Dashboard(func() metrics.Board { return metrics.Board(server.Counts()) })
	return server.Serve(ctx, ln)
}

// server is a dashboard that shows the documents on ln, and gives out models on loopback: the ledger records them as fetched by its own identity.
func (d *documents) server(cfg dashboard.Config, ln net.Listener) *dashboard.Server {
	cfg.Documents, cfg.Now, cfg.Hosts = d, d.session.Env.Now, pageHosts(ln.Addr().String(), cfg.Certificate)
	if givesModelsAt(ln.Addr()) {
		cfg.Fetch = d.fetchModel
	}
	return dashboard.New(cfg)
}

// givesModelsAt reports whether models are given out at an address: where none but this machine reaches it.
func givesModelsAt(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// openDocuments opens the documents of a swarm, until done; actions says whether the page may act, and judge how models are proven.
func openDocuments(ctx context.Context, s *Session, target Context, actions bool, judge audit.Options) (docs *documents, done func(), err error) {
	release := func() {}
	if s.own != nil {
		release = s.own.keep() // one identity serves the client and what is said of it
	}
	target.calls.onWait, target.calls.onFollow = s.say, s.follow(target)
	api, closeAPI, err := s.Connect(ctx, target)
	if err != nil {
		release()
		return nil, nil, err
	}
	disconnect := func() { closeAPI(); release() }
	docs = newDocuments(s, target, api, actions, judge)
	if s.Identify == nil {
		return docs, disconnect, nil
	}
	source, _, err := s.Identify(ctx, target)
	if err != nil {
		disconnect()
		return nil, nil, err
	}
	docs.identity = source.Status
	return docs, func() { _ = source.Close(); disconnect() }, nil
}

// besideRun serves the dashboard of a swarm that `local run` has founded, and tells its addresses, until stop; pages then say that it has
// ended, and after. It is on the usual port, or on a free one if that is taken.
func besideRun(ctx context.Context, s *Session, target Context, after string, say local.Say) (stop func(), err error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", dashboardAddress)
	if err != nil {
		if ln, err = config.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return nil, exit.New(exit.Failed, "leave out --dashboard", "dashboard: %w", err)
		}
	}
	one := *s
	one.Env.Stderr = io.Discard // the board has the terminal
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cfg := dashboard.Config{
			Invite: func(address string) { say.Address("dashboard: " + address + " lets one browser in, once") },
			Ended:  dashboard.Link{Problem: "the training run has ended", Remedy: after},
		}
		judge, err := foundedNow(ctx, &one, target)
		if err == nil {
			err = serveBeside(ctx, &one, target, cfg, ln, judge)
		}
		if err != nil && ctx.Err() == nil {
			say.Log("WARNING: the dashboard has ended: " + err.Error())
		}
		_ = ln.Close() // it is closed, if it came to that
	}()
	return func() { cancel(); <-ended }, nil
}

// serveBeside serves a swarm's dashboard on ln until ctx ends; judge says how models are proven.
func serveBeside(ctx context.Context, s *Session, target Context, cfg dashboard.Config, ln net.Listener, judge audit.Options) error {
	docs, done, err := openDocuments(ctx, s, target, cfg.Actions, judge)
	if err != nil {
		return err
	}
	defer done()
	return docs.server(cfg, ln).Serve(ctx, ln)
}

// foundedNow is how the ledger of a swarm is judged that was founded a moment ago: by the CA certificates of the caller's own identity.
func foundedNow(ctx context.Context, s *Session, target Context) (audit.Options, error) {
	if s.Identify == nil {
		return audit.Options{Unsigned: true}, nil
	}
	source, domains, err := s.Identify(ctx, target)
	if err != nil {
		return audit.Options{}, err
	}
	var judge audit.Options
	for _, authorities := range authoritiesOf(source, domains) {
		judge.Authorities = append(judge.Authorities, authorities...)
	}
	return judge, source.Close()
}

// pageHosts are what browsers may call a page that listens at an address, first what is printed: with a certificate it has to be valid for that.
func pageHosts(listen string, certificate *tls.Certificate) []string {
	host, port, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return []string{listen}
	case certificate == nil:
		return []string{listen, net.JoinHostPort("localhost", port)}
	case certificate.Leaf.VerifyHostname(host) == nil:
		return []string{listen}
	}
	for _, name := range certificate.Leaf.DNSNames {
		if !strings.Contains(name, "*") {
			return []string{net.JoinHostPort(strings.ToLower(name), port)}
		}
	}
	for _, ip := range certificate.Leaf.IPAddresses {
		return []string{net.JoinHostPort(ip.String(), port)}
	}
	return []string{listen}
}

// pageConfig is what options say of the page, and where it is to be served.
func pageConfig(opts *cli.Context) (cfg dashboard.Config, listen netip.AddrPort, err error) {
	listen, err = netip.ParseAddrPort(opts.String("listen"))
	if err != nil {
		return cfg, listen, exit.New(exit.Usage, "give an address of this machine and a port, such as --listen 127.0.0.1:30309", "--listen %.80q is no ADDRESS:PORT", opts.String("listen"))
	}
	cfg.Actions = opts.Bool("actions")
	cert, key := opts.String("page-cert"), opts.String("page-key")
	switch loopback := listen.Addr().IsLoopback(); {
	case (cert == "") != (key == ""):
		return cfg, listen, exit.New(exit.Usage, "give both, or none", "--page-cert and --page-key go together")
	case !loopback && cert == "":
		return cfg, listen, exit.New(exit.Usage, "give --page-cert and --page-key, or a loopback address, which ssh -L reaches from elsewhere", "%s is no loopback address: without a certificate others could read along", listen)
	case !loopback && cfg.Actions:
		return cfg, listen, exit.New(exit.Usage, "leave out --actions, or give a loopback address", "--actions is for loopback addresses only: %s is none", listen)
	case cert == "":
		return cfg, listen, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return cfg, listen, exit.New(exit.Usage, "give PEM files of one certificate and its key", "read the page's certificate: %w", err)
	}
	cfg.Certificate = &pair
	return cfg, listen, nil
}

// listenForPage listens where the page is to be served.
func listenForPage(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, exit.New(exit.Conflict, "use the dashboard that is there, or give another port with --listen", "%s is in use: another dashboard may be running", at)
	case err != nil:
		return nil, exit.New(exit.Failed, "give an address of this machine with --listen", "dashboard: %w", err)
	}
	return ln, nil
}
