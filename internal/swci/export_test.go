package swci

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/local"
	"github.com/swarmd/swarmd/internal/swci/web"
)

// SWCIFlags are run-swci's own options.
func SWCIFlags() []cli.Flag { return swciFlags() }

// BoxSpec is the container that run-swci asks for with args.
func BoxSpec(s *Session, args ...string) (component.Spec, error) {
	l, err := s.Grammar.split(append([]string{"run-swci"}, args...))
	if err != nil {
		return component.Spec{}, err
	}
	_, parsed, err := s.Grammar.parse(l)
	if err != nil {
		return component.Spec{}, err
	}
	return s.boxSpec(parsed.Opts)
}

// ServingSNs are the SNs of an invitation.
func ServingSNs(nodes []*swarmv1.Node, leader string) ([]invitation.SN, error) {
	return servingSNs(nodes, leader)
}

// CommandOf is what a host types that is invited.
func CommandOf(i *invitation.Invitation, role identity.Role, file string) string {
	return commandOf(i, role, file)
}

// Candidates are the words that complete head at a prompt that was started with args.
func Candidates(ctx context.Context, s *Session, args []string, head string) []string {
	l, _ := s.Grammar.bare(args)
	opts, err := options(l, s.Grammar.global, nil)
	if err != nil {
		return []string{err.Error()}
	}
	p, done, err := s.openPrompt(opts, "-")
	if err != nil {
		return []string{err.Error()}
	}
	defer done()
	return candidates(ctx, s, p, head)
}

// WebRunner is what runs the commands of web mode that was started with args, after its startup script.
func WebRunner(ctx context.Context, s *Session, args ...string) (web.Runner, func(), error) {
	l, err := s.Grammar.split(append([]string{"run-swci"}, args...))
	if err != nil {
		return nil, nil, err
	}
	_, parsed, err := s.Grammar.parse(l)
	if err != nil {
		return nil, nil, err
	}
	p, done, err := s.openPrompt(parsed.Opts, "-")
	if err != nil {
		return nil, nil, err
	}
	return newWebClients(s, p), done, p.shell.Begin(ctx)
}

// BesideRun serves the dashboard of a swarm that `local run` has started.
func BesideRun(ctx context.Context, s *Session, target Context, after string, say local.Say) (stop func(), err error) {
	return besideRun(ctx, s, target, after, say)
}

// ReadProofs is the dashboard's proof of CONTRACT/ROUND, of a ledger that is read from an offset on.
func ReadProofs(from func(ctx context.Context, offset int64, w io.Writer) (int64, error), clock func() time.Time) func(ctx context.Context, of string) (json.RawMessage, error) {
	o := audit.Options{Unsigned: true}
	return (&documents{judge: o, events: newEventReader(from, o, clock)}).proof
}

// FetchForPage is how a dashboard fetches a model for a page.
func FetchForPage(ctx context.Context, s *Session, api client.Operator, of dashboard.ModelOf, begin func(name string, size int64) io.Writer) error {
	var err error
	if s.Grammar, err = NewGrammar(); err != nil {
		return err
	}
	return newDocuments(s, Context{SNs: []string{api.SNs()[0]}}, api, false, audit.Options{Unsigned: true}).fetchModel(ctx, of, begin)
}

// ReadEvents is the dashboard's document of events, made anew whenever it is due, of a ledger that is read from an offset on.
func ReadEvents(from func(ctx context.Context, offset int64, w io.Writer) (int64, error), clock func() time.Time) func(ctx context.Context) (json.RawMessage, error) {
	return newEventReader(from, audit.Options{Unsigned: true}, clock).now
}
