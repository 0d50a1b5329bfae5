package swci

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	idpattern "github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/cmdline"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
	"github.com/swarmd/swarmd/internal/swci/web"
)

// webPort is where web mode listens unless told otherwise, as the original does.
const webPort = 30306

// webWord is one of the commands that clients of web mode may have done.
type webWord struct {
	name    string // its keywords
	options bool   // its own options are taken too
	files   bool   // its words are names of files, which must be in the user directory
	lists   bool   // its answer is what there is, which may be nothing
	secret  bool   // its words are for no log
}

// webWords start nothing on this host, and read and write no file of it but those of the user directory: who may command the swarm
// need not be who may use this host. The other commands are for the prompt.
var webWords = []webWord{
	{name: "list nodes"},
	{name: "get health"},
	{name: "create contract", options: true},
	{name: "list contracts", lists: true},
	{name: "get contract status"},
	{name: "get contract info"},
	{name: "explain contract"},
	{name: "reset contract"},
	{name: "delete contract"},
	{name: "pause contract"},
	{name: "resume contract"},
	{name: "end contract"},
	{name: "assign task", options: true},
	{name: "wait for taskrunner"},
	{name: "reset taskrunner"},
	{name: "get taskrunner info"},
	{name: "get taskrunner status"},
	{name: "get taskrunner peer status"},
	{name: "list taskrunner peers", lists: true},
	{name: "list assignments", lists: true},
	{name: "list approvals", lists: true},
	{name: "list jobs", lists: true},
	{name: "get job status", options: true},
	{name: "cancel job", options: true},
	{name: "list models", lists: true},
	{name: "create context"},
	{name: "list contexts", lists: true},
	{name: "switch context"},
	{name: "get context info"},
	{name: "get context version"},
	{name: "list context env", lists: true},
	{name: "get context env"},
	{name: "set context env", secret: true},
	{name: "wait for"},
	{name: "wait for service"},
	{name: "perfdata"},
	{name: "create task"},
	{name: "create task from", files: true},
	{name: "append task body", secret: true},
	{name: "finalize task"},
	{name: "delete task"},
	{name: "get task info"},
	{name: "get task body"},
	{name: "list tasks", lists: true},
	{name: "create taskrunner"},
	{name: "delete taskrunner"},
	{name: "list taskrunners", lists: true},
	{name: "help"},
	{name: "version"},
	{name: "sleep"},
	{name: "exit on failure"},
	{name: "pwd"},
	{name: "cd", files: true},
	{name: "ls", files: true, lists: true},
}

// webWord is what web mode knows of a command; found is false if that is not for it.
func (g *Grammar) webWord(c *Command) (word webWord, found bool) {
	if c == nil {
		return webWord{}, false
	}
	name := strings.Join(c.compiled.keywords(), " ")
	i := slices.IndexFunc(webWords, func(w webWord) bool { return w.name == name })
	if i < 0 {
		return webWord{}, false
	}
	return webWords[i], true
}

// allowInWeb returns an error for a line that web mode does not run.
func (g *Grammar) allowInWeb(ctx context.Context, sh *shell.Shell, c *Command, l cmdline.Line) error {
	if c == nil {
		return nil // who parses it says what is wrong
	}
	name := strings.Join(c.compiled.keywords(), " ")
	word, found := g.webWord(c)
	if !found {
		return exit.New(exit.Denied, "use the prompt: swarmctl run-swci without --web", "%s is not for web mode", name)
	}
	own := cmdline.NewTable(c.Flags...)
	for _, o := range l.Options {
		_, has := own[o.Name]
		if o.Name != "o" && o.Name != "output" && !(has && word.options) {
			return exit.New(exit.Denied, "web mode has the options that it was started with", "option %s is not for web mode", o.Typed)
		}
	}
	if word.files {
		paths := l.Words[len(strings.Fields(name)):]
		if len(paths) == 0 {
			paths = []string{"."}
		}
		for _, path := range paths {
			if !strings.HasPrefix(path, "-") && !insideUsr(ctx, sh, path) {
				return exit.New(exit.Denied, "web mode sees the user directory only, which --usr-dir names", "%s is not in the user directory", path)
			}
		}
	}
	return nil
}

// insideUsr reports whether a path, or all that a pattern stands for, is in the user directory. Nothing is looked for outside of it.
func insideUsr(ctx context.Context, sh *shell.Shell, path string) bool {
	i := strings.IndexAny(path, "*?[")
	if i < 0 {
		return sh.Inside(path)
	}
	dir := first(path[:strings.LastIndexByte(path[:i], '/')+1], ".")
	if strings.Contains(path, "..") || !sh.Inside(dir) {
		return false
	}
	found, err := sh.Expand(ctx, []string{path})
	return err == nil && !slices.ContainsFunc(found, func(p string) bool { return !sh.Inside(p) })
}

// ofDomain refuses patterns of clients that no client can match: all are of web mode's own trust domain.
func ofDomain(clients idpattern.List, domain string) error {
	for _, c := range clients.Strings() {
		if !strings.HasPrefix(c, "spiffe://"+domain+"/") {
			return exit.New(exit.Usage, "operators of another organisation use a SWCI of their own", "--web-client=%s: clients are of this SWCI's trust domain, %s", c, domain)
		}
	}
	return nil
}

// runWeb serves the prompt to programs, after the startup script.
func (s *Session) runWeb(ctx context.Context, opts *cli.Context) error {
	clients, err := idpattern.ParseList(opts.StringSlice("web-client"))
	if err != nil {
		return exit.New(exit.Usage, "a client is spiffe://DOMAIN/swarm/swci/NAME", "--web-client: %w", err)
	}
	longest, err := longestWait(s.Env.Getenv)
	if err != nil {
		return err
	}
	port := opts.Int("web-port")
	if err := address.Listen(new(net.ListenConfig).Listen).CheckFree(ctx, "", "web-port", port); err != nil {
		return exit.New(exit.Failed, "", "web mode: %w", err)
	}
	target, err := s.anyTarget(opts)
	if err != nil {
		return err
	}
	if target.Identity == "" {
		return errNoIdentity()
	}
	p, done, err := s.openPrompt(opts, "-")
	if err != nil {
		return err
	}
	defer done()
	source, _, err := s.Identify(ctx, target)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	// What clients have done is signed with this identity, and stands in the ledger in its name: those of other trust domains are to use
	// their own.
	domains, err := identity.NewDomains(source.ID().SPIFFE().TrustDomain())
	if err != nil {
		return err
	}
	if source.ID().Role() != identity.RoleSWCI {
		return exit.New(exit.Denied, "give it an identity of the role swci", "web mode commands the swarm, and %s may not", source.ID())
	}
	if err := ofDomain(clients, source.ID().SPIFFE().TrustDomain().Name()); err != nil {
		return err
	}
	if err := p.shell.Begin(ctx); err != nil {
		return err
	}
	if p.shell.Over() {
		fmt.Fprintln(s.Env.Stderr, "swarmctl: the startup script ended SWCI: take EXIT out of it for web mode")
		return nil
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address.Join("", port))
	if err != nil {
		return exit.New(exit.Failed, "give another port with --web-port", "web mode: %w", err)
	}
	server := web.New(web.Config{
		Source: source, Domains: domains, Clients: clients, Runner: newWebClients(s, p), Dir: p.dir, Longest: longest,
		Log: slog.New(slog.NewTextHandler(s.Env.Stderr, nil)),
	})
	m, err := openMetrics(ctx, s, opts, "web", source.Status)
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer func() { _ = m.Close() }() // its readers have gone by then, or are cut
	m.Web(func() metrics.Programs { return metrics.Programs(server.Counts()) })
	fmt.Fprintf(s.Env.Stdout, "SWCI WEB MODE : %s as %s\n", ln.Addr(), source.ID())
	return server.Serve(ctx, ln)
}
