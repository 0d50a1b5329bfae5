package swci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/backupfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// backupWait bounds reading a whole backup.
const backupWait = 30 * time.Minute

func backupCommands() []*Command {
	return []*Command{
		{
			Pattern: "backup sn FILE", Group: "Backup", Shell: true,
			Summary: "Back up the state of the SNs into a file",
			Details: "Reads the swarm's state at one moment, and the ledger up to just there, from one SN that runs: all of them have the same, so a backup of one is a backup of all. The file is checked as \"verify backup\" does and gets its name only then; if it is interrupted, it leaves no file. It holds no private key and no token, but names, addresses, rules and the hashes of tokens: its mode is 0600.\n\n" +
				"A FILE that is an earlier backup of the same history is replaced, so the same command may run every hour. Anything else under that name is kept, unless --force is given.\n\n\"swarmd restore-sn FILE\" makes an SN of it, once all SNs or a majority of them are lost. See docs/operations/backup.md.",
			Example: "backup sn /srv/backup/swarm.backup",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "force", Usage: "write over the file, whatever it is"},
			},
			JSON: backupJSON{},
			Run:  backupSN,
		},
		{
			Pattern: "verify backup FILE", Group: "Backup", Shell: true,
			Summary: "Check a backup of the SNs offline",
			Details: "Reads all of it, as \"swarmd restore-sn\" does: its digest, the state and its invariants, the ledger's chain up to the record that the state names. With --bundle the ledger in it is judged as \"verify ledger\" does. Asks nobody.\n\nThe digest finds damage. It does not prove who wrote the file; only the signatures in the ledger do, for what they cover.",
			Example: "verify backup /srv/backup/swarm.backup",
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "bundle", Usage: "PEM `FILE` with CA certificates that signed when the swarm was founded; repeatable"},
			},
			JSON: backupJSON{},
			Run:  verifyBackup,
		},
	}
}

// backupJSON is `backup sn FILE -o json`, and `verify backup FILE -o json`.
type backupJSON struct {
	File      string               `json:"file" doc:"that was written or read"`
	Bytes     int64                `json:"bytes" doc:"its size"`
	SwarmID   string               `json:"swarm_id" doc:"the swarm's"`
	At        *string              `json:"at" doc:"when it was made, by the SN's clock; RFC 3339, UTC"`
	SN        string               `json:"sn" doc:"name of the SN that wrote it"`
	Confirmed bool                 `json:"confirmed" doc:"a majority of the SNs told it that nothing committed was missing"`
	Index     uint64               `json:"index" doc:"log index of the state"`
	Records   uint64               `json:"records" doc:"of the ledger"`
	Head      string               `json:"head" doc:"hash of the last one"`
	Contracts []backupContractJSON `json:"contracts" doc:"by name"`
}

type backupContractJSON struct {
	Name  string `json:"name" doc:"the contract's"`
	Run   uint64 `json:"run" doc:"its run"`
	Round uint64 `json:"round" doc:"the newest one that was committed; 0: none"`
}

func backupToJSON(path string, f backupfile.File) backupJSON {
	h := f.Header
	out := backupJSON{
		File: path, Bytes: f.Bytes, SwarmID: h.SwarmID, At: stamp(h.AtMS), SN: h.Origin.SN, Confirmed: h.Confirmed, Index: h.Index,
		Records: h.Ledger.Length, Head: h.Ledger.Hash, Contracts: []backupContractJSON{},
	}
	for _, name := range slices.Sorted(maps.Keys(f.State.Contracts)) {
		c := f.State.Contracts[name]
		out.Contracts = append(out.Contracts, backupContractJSON{name, c.Run, c.Round()})
	}
	return out
}

// maxNamed bounds the contracts that a line names.
const maxNamed = 8

// text is the backup in one line.
func (b backupJSON) text() string {
	var trained []string
	for _, c := range b.Contracts {
		if c.Round > 0 {
			trained = append(trained, fmt.Sprintf("%s run %d round %d", text.Line(c.Name), c.Run, c.Round))
		}
	}
	more := ""
	if len(trained) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(trained)-maxNamed)
		trained = trained[:maxNamed]
	}
	if len(trained) == 0 {
		trained = []string{"nothing trained"}
	}
	return fmt.Sprintf("swarm %s at index %d, %s, %s%s; %d bytes from %s", text.Line(b.SwarmID), b.Index, many(int(b.Records), "ledger record"), //nolint:gosec // a count of records
		strings.Join(trained, ", "), more, b.Bytes, text.Line(b.SN))
}

func backupSN(ctx context.Context, s *Session, args Args) error {
	path := args.Value("FILE")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		if _, err := api.GetSwarm(ctx); err != nil { // whether an SN is there is soon known
			return fmt.Errorf("back up: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, backupWait)
		defer cancel()
		f, err := backupfile.Write(path, args.Opts.Bool("force"), func(w io.Writer) error {
			_, err := api.ReadBackup(ctx, w)
			return err
		})
		if err != nil {
			return fmt.Errorf("back up: %w", err)
		}
		b := backupToJSON(path, f)
		if !b.Confirmed {
			fmt.Fprintf(s.Env.Stderr, "warning: %s could not ask a majority of the SNs: if others still run they may hold more than this backup\n", text.Line(b.SN))
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, b)
		}
		_, err = fmt.Fprintf(s.Env.Stdout, "wrote %s: %s\n", path, b.text())
		return err
	})
}

func verifyBackup(_ context.Context, s *Session, args Args) error {
	path := args.Value("FILE")
	check, report := func(ledger.Head, []byte) error { return nil }, func(error) (*audit.Report, error) { return nil, nil }
	if args.Opts.IsSet("bundle") {
		options, err := auditBy(args.Opts, s.Env.Getenv)
		if err != nil {
			return err
		}
		check, report = auditing(options)
	}
	f, err := backupfile.Read(path, check)
	r, auditErr := report(err)
	if err = cmp.Or(err, auditErr); err != nil {
		return fmt.Errorf("verify backup: %w", err)
	}
	b := backupToJSON(path, f)
	if s.JSON {
		err = printJSON(s.Env.Stdout, b)
	} else {
		_, err = fmt.Fprintf(s.Env.Stdout, "%s is whole: %s, made %s\n", path, b.text(), dated(f.Header.AtMS))
	}
	if err != nil || r == nil || r.Good() {
		return err
	}
	return exit.New(exit.Failed, notGoodHint(audit.Options{}), "the ledger in it is not good: %s, the first: %s", many(len(r.Problems)+r.More, "problem"), text.Line(r.Problems[0].Error()))
}

// auditing returns what takes the ledger's lines, and what ends the audit, with an error if not all came, and returns its report.
func auditing(o audit.Options) (check func(ledger.Head, []byte) error, end func(error) (*audit.Report, error)) {
	type result struct {
		report *audit.Report
		err    error
	}
	r, w := io.Pipe()
	done := make(chan result, 1)
	go func() {
		report, err := audit.Verify(r, o)
		_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails
		done <- result{report, err}
	}()
	check = func(_ ledger.Head, line []byte) error {
		_, err := w.Write(line)
		return err
	}
	return check, func(err error) (*audit.Report, error) {
		_ = w.CloseWithError(err) // never fails; without an error it is the end
		got := <-done
		return got.report, got.err
	}
}
