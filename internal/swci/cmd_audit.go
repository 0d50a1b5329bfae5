package swci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	idpattern "github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/deeds"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

func auditCommands() []*Command {
	return []*Command{{
		Pattern: "audit [FILE]", Group: "Ledger", Shell: true,
		Summary: "Show who did what in the swarm, and when",
		Details: "Reads the ledger of an SN, or a copy of it in FILE, and prints each record that says what somebody did: who made, finalised, assigned, approved, refused, ended and deleted tasks, set rights and rules, paused, resumed, ended, reset and deleted contracts, fetched models, and registered, banned, admitted, invited and forgot nodes. Where WHO is empty the SNs judged, or the record is of before operators signed. Rounds and their participants are left out: \"verify ledger\" has them.\n\n" +
			"It checks while it reads, as \"verify ledger\" does, that the chain is whole and that records are what operators asked for; with --bundle also their signatures. Ends with exit code 1 if anything is wrong.",
		Example: "audit --task train --since 7d",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "task", Usage: "only what was done with the task `NAME` and its assignments"},
			&cli.StringFlag{Name: "job", Usage: "only what was done with the job `NAME`: with its tasks, and their assignments"},
			&cli.StringFlag{Name: "contract", Usage: "only what was done with the contract `NAME` and its models"},
			&cli.StringFlag{Name: "who", Usage: "only what these did: a SPIFFE ID or a `PATTERN` such as spiffe://hospital-a.example/swarm/swci/*"},
			&cli.StringFlag{Name: "since", Usage: "only what was done since `TIME`: a date, a time such as 2026-11-27T08:00:00Z, or how long ago, such as 12h or 7d"},
			&cli.StringSliceFlag{Name: "bundle", Usage: "PEM `FILE` with CA certificates that signed when the swarm was founded; repeatable"},
		},
		JSON: auditJSON{},
		Run:  auditSwarm,
	}}
}

// auditJSON is `audit -o json`.
type auditJSON struct {
	Good         bool                `json:"good" doc:"nothing is wrong with the ledger"`
	Signatures   bool                `json:"signatures" doc:"they were checked: --bundle was given"`
	SwarmID      string              `json:"swarm_id" doc:"the swarm's"`
	Records      uint64              `json:"records" doc:"that were read and form a chain"`
	Head         string              `json:"head" doc:"hash of the last one"`
	Deeds        []deedJSON          `json:"deeds" doc:"that were asked for, in order"`
	Problems     []ledgerProblemJSON `json:"problems" doc:"what is wrong, at most 100"`
	MoreProblems int                 `json:"more_problems" doc:"beyond those"`
}

type deedJSON struct {
	Record     uint64           `json:"record" doc:"its number, from 1"`
	At         *string          `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	By         string           `json:"by" doc:"SPIFFE ID of the operator or the node; empty: the SNs judged, or nobody had to sign then"`
	Does       string           `json:"does" doc:"such as assigned, approved, refused, cancelled, paused, banned, set rights"`
	Task       string           `json:"task" doc:"its name; empty: it is about no task"`
	Digest     string           `json:"digest" doc:"of the task; empty: it was not finalised"`
	Assignment string           `json:"assignment" doc:"its ID; empty: it is about the task"`
	Joins      string           `json:"joins" doc:"the assignment beside which hosts carry it out; empty: none"`
	Beside     string           `json:"beside" doc:"the SL that runs rank 0 of a job itself; empty: hosts have all members"`
	Taskrunner string           `json:"taskrunner" doc:"of an assignment"`
	Hosts      []string         `json:"hosts" doc:"that an assignment names, or the one that is approved or refused"`
	Contract   string           `json:"contract" doc:"its name; empty: it is about no contract"`
	Run        uint64           `json:"run" doc:"the contract's"`
	Round      uint64           `json:"round" doc:"of a model; 0: it is about none"`
	Node       string           `json:"node" doc:"that is concerned, or let a model out"`
	PeerID     string           `json:"peer_id" doc:"libp2p peer ID of its node key"`
	Sentences  []string         `json:"sentences" doc:"of rights"`
	Reason     string           `json:"reason" doc:"in words"`
	End        string           `json:"end" doc:"of a job that has ended: why, in one word; empty: it is none"`
	Members    []ranMembersJSON `json:"members" doc:"of an assignment that has ended: the hosts that it was on"`
}

func auditSwarm(ctx context.Context, s *Session, args Args) error {
	filter, err := auditFilter(args.Opts, s.Env.Now())
	if err != nil {
		return err
	}
	options := audit.Options{Unsigned: !args.Opts.IsSet("bundle")}
	if !options.Unsigned {
		if options, err = auditBy(args.Opts, s.Env.Getenv); err != nil {
			return err
		}
	}
	var found []deeds.Deed
	options.Each = func(record uint64, atMS int64, body ledger.Body) {
		if d, ok := deeds.FromRecord(record, atMS, body); ok && filter.Takes(&d) {
			found = append(found, d)
		}
	}
	report, err := judgeLedger(ctx, s, args, options)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if s.JSON {
		err = printJSON(s.Env.Stdout, auditToJSON(report, found, options))
	} else {
		err = printDeeds(s, report, found, options)
	}
	if err != nil {
		return err
	}
	return notGood(report, options)
}

// auditFilter reads which records are asked for.
func auditFilter(opts *cli.Context, now time.Time) (f deeds.Filter, err error) {
	f.Task, f.Job, f.Contract = opts.String("task"), opts.String("job"), opts.String("contract")
	if who := opts.String("who"); who != "" {
		p, err := idpattern.Parse(who)
		if err != nil {
			return f, exit.New(exit.Usage, "give a SPIFFE ID such as spiffe://hospital-a.example/swarm/swci/ann, or * for one segment of it", "--who: %w", err)
		}
		f.Who = &p
	}
	if since := opts.String("since"); since != "" {
		if f.SinceMS, err = deeds.Since(since, now); err != nil {
			return f, exit.New(exit.Usage, "", "--since: %w", err)
		}
	}
	return f, nil
}

// judgeLedger judges the ledger in the file that is named, or else that of an SN, as it comes.
func judgeLedger(ctx context.Context, s *Session, args Args, o audit.Options) (report *audit.Report, err error) {
	if path := args.Value("FILE"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			return nil, exit.New(exit.NotFound, "swarmctl get ledger makes a copy", "%w", err)
		}
		defer f.Close()
		return audit.Verify(f, o)
	}
	err = s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		if _, err := api.GetSwarm(ctx); err != nil { // whether an SN is there is soon known
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, ledgerWait)
		defer cancel()
		r, w := io.Pipe()
		read := make(chan error, 1)
		go func() {
			_, err := api.ReadLedger(ctx, w)
			_ = w.CloseWithError(err) // never fails; without an error it is the end
			read <- err
		}()
		var verifyErr error
		report, verifyErr = audit.Verify(r, o)
		_ = r.Close() // never fails; what is wrong may have ended it early
		if err := <-read; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return err
		}
		return verifyErr
	})
	return report, err
}

func auditToJSON(r *audit.Report, found []deeds.Deed, o audit.Options) auditJSON {
	out := auditJSON{Good: r.Good(), Signatures: !o.Unsigned, SwarmID: r.SwarmID, Records: r.Records, Head: r.Head, Deeds: []deedJSON{}, Problems: problemsToJSON(r), MoreProblems: r.More}
	for _, d := range found {
		out.Deeds = append(out.Deeds, deedJSON{
			d.Record, stamp(d.AtMS), d.By, d.Does, d.Task, d.Digest, d.Assignment, d.Joins, d.Beside, d.Taskrunner, append([]string{}, d.Hosts...), d.Contract, d.Run, d.Round,
			d.Node, d.PeerID, append([]string{}, d.Sentences...), d.Reason, d.End, membersToJSON(d.Members),
		})
	}
	return out
}

func printDeeds(s *Session, r *audit.Report, found []deeds.Deed, o audit.Options) error {
	t := table{header: []string{"RECORD", "AT", "WHO", "DID", "WHAT", "WHY"}}
	for _, d := range found {
		t.add(utoa(d.Record), dated(d.AtMS), d.By, d.Does, d.What(), d.Why())
	}
	if err := t.print(s.Env.Stdout); err != nil {
		return err
	}
	printProblems(s.Env.Stdout, r)
	if !r.Good() {
		return nil
	}
	checked := "and the signatures are good"
	if o.Unsigned {
		checked = "and signatures were not checked: give --bundle"
	}
	s.say(fmt.Sprintf("the chain of %s is whole, %s", many(int(r.Records), "record"), checked)) //nolint:gosec // they were counted one by one
	return nil
}
