package swci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func dashboardCommands() []*Command {
	return []*Command{{
		Pattern: "dashboard", Group: "Contexts",
		Summary: "Show the swarm in a browser",
		Details: "Serves a page on this machine that shows the swarm as it changes: nodes, contracts and their curves, models, tasks, jobs and events. It asks the swarm as any other command does, with your identity and your rights, and sends nothing anywhere else. It prints an address that lets in one browser, once, and another one as soon as that was used. It ends with Ctrl-C.\n\n" +
			"The page only shows, unless --actions is given: then whoever uses the browser may approve and refuse tasks in your name. Programs of other users of this machine reach the page too, and are not let in without the address: keep it to yourself.\n\n" +
			"On another address than loopback, --listen needs --page-cert and --page-key, and --actions is refused.",
		Example: "dashboard",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:30309", Usage: "`ADDRESS:PORT` of this machine"},
			&cli.StringFlag{Name: "page-cert", Usage: "PEM `FILE` with the certificate that browsers are shown, with those that signed it"},
			&cli.StringFlag{Name: "page-key", Usage: "PEM `FILE` with its key"},
			&cli.BoolFlag{Name: "actions", Usage: "let the page approve and refuse tasks, in your name"},
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
	target, err := s.target(args.Opts)
	if err != nil {
		return err
	}
	ln, err := listenForPage(ctx, listen)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }() // Serve has closed it, if it came to that
	if s.own != nil {
		defer s.own.keep()() // one identity serves the client and what the page says of it
	}
	target.calls.onWait, target.calls.onFollow = s.say, s.follow(target)
	api, closeAPI, err := s.Connect(ctx, target)
	if err != nil {
		return err
	}
	defer closeAPI()
	docs := newDocuments(s, target, api, cfg.Actions)
	if s.Identify != nil {
		source, _, err := s.Identify(ctx, target)
		if err != nil {
			return err
		}
		defer func() { _ = source.Close() }()
		docs.identity = func() identity.Status { return source.Status() }
	}
	cfg.Documents, cfg.Now, cfg.Hosts = docs, s.Env.Now, append([]string{ln.Addr().String()}, cfg.Hosts...)
	if _, port, err := net.SplitHostPort(ln.Addr().String()); err == nil && cfg.Certificate == nil {
		cfg.Hosts = append(cfg.Hosts, "localhost:"+port)
	}
	cfg.Invite = func(address string) { fmt.Fprintf(s.Env.Stdout, "dashboard: %s\n", address) }
	s.say("each address lets one browser in, once; until Ctrl-C")
	return dashboard.New(cfg).Serve(ctx, ln)
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
	for _, name := range pair.Leaf.DNSNames {
		cfg.Hosts = append(cfg.Hosts, net.JoinHostPort(name, fmt.Sprint(listen.Port())))
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
