package swci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/deeds"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// ledgerFile is where get ledger writes unless told otherwise.
const ledgerFile = "ledger.jsonl"

// ledgerWait bounds reading a whole ledger.
const ledgerWait = 10 * time.Minute

func ledgerCommands() []*Command {
	return []*Command{
		{
			Pattern: "get ledger", Group: "Ledger", Shell: true,
			Summary: "Copy the swarm's ledger into a file",
			Details: "The ledger is the chain of records of what the swarm committed: its trust bundles, who registered with which node key, and every round with participants, weights, digests and signatures. All SNs hold the same one. A file that exists is not written over unless --force is given; --out - prints it.\n\n\"verify ledger\" checks the copy, also on a machine that knows nothing of the swarm.",
			Example: "get ledger --out study.jsonl",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "out", Value: ledgerFile, Usage: "`FILE` to write, - for standard output"},
				&cli.BoolFlag{Name: "force", Usage: "write over the file"},
			},
			JSON: ledgerCopyJSON{},
			Run:  getLedger,
		},
		{
			Pattern: "get bundle", Group: "Ledger", Shell: true,
			Summary: "Print the CA certificates that swarmctl trusts",
			Details: "Prints them in PEM form, those of all trust domains that swarmctl accepts, or writes them to --out: what \"verify ledger --bundle\" takes. Keep the bundle of the day on which the swarm was founded, and its SHA-256 in a place that the swarm's operators do not own. With SPIRE \"spire-server bundle show\" gives the same. Asks no SN.",
			Example: "get bundle --out founding-ca.pem",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "out", Value: "-", Usage: "`FILE` to write, - for standard output"},
				&cli.BoolFlag{Name: "force", Usage: "write over the file"},
			},
			JSON: bundleJSON{},
			Run:  getBundle,
		},
		{
			Pattern: "verify ledger FILE", Group: "Ledger", Shell: true,
			Summary: "Check a copy of the ledger offline",
			Details: "Checks that the chain of records is whole, that the rounds of every contract follow one another, that all participants of a round signed it with their node keys, that these belong to nodes which registered with an SVID, that the SVIDs were issued by the authorities of their time, and that the first authorities are among those of --bundle. Participants sign the ledger's past with every round, so a record can't be changed later without their keys; only for records after the last round do the SNs alone vouch, or --head.\n\n" +
				"Asks nobody. Ends with exit code 1 if anything is wrong, and names the record, the field and the fault.",
			Example: "verify ledger ledger.jsonl --bundle founding-ca.pem",
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "bundle", Usage: "PEM `FILE` with CA certificates that signed when the swarm was founded; repeatable"},
				&cli.StringFlag{Name: "head", Usage: "`HASH` that the last record must have, as in another copy"},
			},
			JSON: auditedJSON{},
			Run:  verifyLedger,
		},
	}
}

// ledgerCopyJSON is `get ledger -o json`.
type ledgerCopyJSON struct {
	File    string `json:"file" doc:"that was written"`
	Bytes   int64  `json:"bytes" doc:"its size"`
	Records int    `json:"records" doc:"number of records"`
}

func getLedger(ctx context.Context, s *Session, args Args) error {
	out := args.Opts.String("out")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		if _, err := api.GetSwarm(ctx); err != nil { // whether an SN is there is soon known
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, ledgerWait)
		defer cancel()
		if out == "-" {
			_, err := api.ReadLedger(ctx, s.Env.Stdout)
			return err
		}
		counted := &lineCounter{}
		var n int64
		err := writeFile(out, 0o644, args.Opts.Bool("force"), func(w io.Writer) (err error) {
			n, err = api.ReadLedger(ctx, io.MultiWriter(w, counted))
			return err
		})
		if err != nil {
			return err
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, ledgerCopyJSON{out, n, counted.lines})
		}
		fmt.Fprintf(s.Env.Stdout, "wrote %s (%d bytes) to %s\ncheck it with: swarmctl verify ledger %s --bundle CA.pem\n", many(counted.lines, "record"), n, out, out)
		return nil
	})
}

type lineCounter struct{ lines int }

// Write counts line feeds.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

// bundleJSON is `get bundle -o json`.
type bundleJSON struct {
	TrustDomains []bundleDomainJSON `json:"trust_domains" doc:"that swarmctl accepts and has certificates of"`
}

type bundleDomainJSON struct {
	Name         string   `json:"name" doc:"the trust domain's"`
	Certificates []string `json:"certificates" doc:"its CA certificates, each in PEM form"`
}

func getBundle(ctx context.Context, s *Session, args Args) error {
	_, source, domains, err := s.identify(ctx, args)
	if err != nil {
		return err
	}
	defer source.Close()
	found := bundleJSON{TrustDomains: []bundleDomainJSON{}}
	var text strings.Builder
	for name, authorities := range authoritiesOf(source, domains) {
		domain := bundleDomainJSON{Name: name, Certificates: []string{}}
		for _, cert := range authorities {
			block := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
			domain.Certificates = append(domain.Certificates, block)
			text.WriteString(block)
		}
		found.TrustDomains = append(found.TrustDomains, domain)
	}
	if out := args.Opts.String("out"); out != "-" {
		err := writeFile(out, 0o644, args.Opts.Bool("force"), func(w io.Writer) error {
			_, err := io.WriteString(w, text.String())
			return err
		})
		if err != nil {
			return err
		}
		if !s.JSON {
			fmt.Fprintf(s.Env.Stdout, "wrote the CA certificates of %s to %s\n", many(len(found.TrustDomains), "trust domain"), out)
		}
	} else if !s.JSON {
		fmt.Fprint(s.Env.Stdout, text.String())
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, found)
	}
	return nil
}

// authoritiesOf are the CA certificates that source has, by accepted trust domain; one of which it has none is left out.
func authoritiesOf(source identity.Provider, domains identity.Domains) iter.Seq2[string, []*x509.Certificate] {
	return func(yield func(string, []*x509.Certificate) bool) {
		for _, name := range domains.Names() {
			td, err := spiffeid.TrustDomainFromString(name)
			if err != nil {
				continue
			}
			bundle, err := source.GetX509BundleForTrustDomain(td)
			if err == nil && !yield(name, bundle.X509Authorities()) {
				return
			}
		}
	}
}

// readBundles reads the CA certificates that the auditor trusts.
func readBundles(files []string) ([]*x509.Certificate, error) {
	if len(files) == 0 {
		return nil, exit.New(exit.Usage, "swarmctl get bundle --out CA.pem exports it, on the day that the swarm is founded", "option --bundle is missing: a ledger is checked against the CA certificates of the swarm's founding")
	}
	var out []*x509.Certificate
	for _, file := range files {
		found, err := certs.ReadCertificates(file)
		if err != nil {
			return nil, exit.New(exit.Usage, "name a PEM file of CA certificates, such as swarmctl get bundle writes", "--bundle: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// auditBy returns how an auditor's options say that a ledger is judged: the authorities of --bundle, and the prefix of SPIFFE IDs.
func auditBy(opts *cli.Context, getenv func(string) string) (audit.Options, error) {
	authorities, err := readBundles(opts.StringSlice("bundle"))
	if err != nil {
		return audit.Options{}, err
	}
	prefix, err := identity.ParsePrefix(spiffePrefix(opts, getenv))
	if err != nil {
		return audit.Options{}, &exit.Error{Status: exit.Usage, Err: err}
	}
	return audit.Options{Authorities: authorities, Prefix: prefix}, nil
}

func verifyLedger(_ context.Context, s *Session, args Args) error {
	options, err := auditBy(args.Opts, s.Env.Getenv)
	if err != nil {
		return err
	}
	head := strings.ToLower(args.Opts.String("head"))
	if raw, err := hex.DecodeString(head); head != "" && (err != nil || len(raw) != sha256.Size) {
		return exit.New(exit.Usage, "give the 64 hex digits that verify ledger prints as the head", "--head %q is not valid", head)
	}
	options.Head = head
	f, err := os.Open(args.Value("FILE"))
	if err != nil {
		return &exit.Error{Status: exit.NotFound, Err: fmt.Errorf("verify ledger: %w", err), Hint: "swarmctl get ledger makes a copy"}
	}
	defer f.Close()
	var tasks []deeds.Deed
	options.Each = func(record uint64, atMS int64, body ledger.Body) {
		if d, ok := deeds.FromRecord(record, atMS, body); ok && d.Task != "" {
			tasks = append(tasks, d)
		}
	}
	report, err := audit.Verify(f, options)
	if err != nil {
		return fmt.Errorf("verify ledger: %w", err)
	}
	if s.JSON {
		err = printJSON(s.Env.Stdout, auditedToJSON(report, tasks))
	} else {
		err = printVerified(s.Env.Stdout, report, tasks)
	}
	if err != nil {
		return err
	}
	return notGood(report, options)
}

// notGood is the error of a ledger with which something is wrong.
func notGood(r *audit.Report, o audit.Options) error {
	if r.Good() {
		return nil
	}
	return exit.New(exit.Failed, notGoodHint(o), "the ledger is not good: %s, the first in record %d", many(len(r.Problems)+r.More, "problem"), r.Problems[0].Record)
}

// auditedJSON is `verify ledger FILE -o json`.
type auditedJSON struct {
	Good          bool                  `json:"good" doc:"nothing is wrong"`
	SwarmID       string                `json:"swarm_id" doc:"the swarm's"`
	Records       uint64                `json:"records" doc:"that were read and form a chain"`
	Bytes         uint64                `json:"bytes" doc:"of them"`
	Head          string                `json:"head" doc:"hash of the last one"`
	Late          bool                  `json:"late" doc:"the swarm had trained before its ledger began"`
	Unwitnessed   uint64                `json:"unwitnessed" doc:"records at the end that neither a participant nor an operator signed as the past: apart from their own signatures, only the SNs vouch for them"`
	Bundles       int                   `json:"bundles" doc:"records of trust bundles"`
	Registrations int                   `json:"registrations" doc:"records of registrations"`
	Rounds        int                   `json:"rounds" doc:"records of rounds"`
	Contracts     []auditedContractJSON `json:"contracts" doc:"by first appearance"`
	Orders        int                   `json:"orders" doc:"changes by operators with their signature"`
	Unsigned      int                   `json:"unsigned" doc:"changes by operators of before they were signed"`
	UnsignedParts int                   `json:"unsigned_members" doc:"parts of hosts in assignments of which the SNs alone say what became: the host did not sign it"`
	Ungrouped     int                   `json:"ungrouped_members" doc:"parts of hosts in assignments of which the SNs alone say the group and for how many peers they stand: the host is of before hosts signed that"`
	Reused        []reusedJSON          `json:"reused" doc:"assignments that have the ID of an earlier one, at most 20: what hosts signed may be about that one"`
	MoreReused    int                   `json:"more_reused" doc:"beyond those"`
	Recoveries    []recoveredJSON       `json:"recoveries" doc:"the group of SNs was founded anew, in order"`
	Tasks         []taskStepJSON        `json:"tasks" doc:"who made, assigned, approved, refused and ended tasks, in order"`
	Backwards     []backwardsJSON       `json:"backwards" doc:"records dated more than a minute before an earlier one, at most 20: a clock was wrong, or the record"`
	MoreBackwards int                   `json:"more_backwards" doc:"beyond those"`
	Problems      []ledgerProblemJSON   `json:"problems" doc:"what is wrong, at most 100"`
	MoreProblems  int                   `json:"more_problems" doc:"beyond those"`
}

type reusedJSON struct {
	Record     uint64 `json:"record" doc:"of the later one"`
	Before     uint64 `json:"before" doc:"record of the one before it"`
	Assignment string `json:"assignment" doc:"their ID"`
}

type recoveredJSON struct {
	Record    uint64  `json:"record" doc:"its number, from 1"`
	At        *string `json:"at" doc:"when, by the operator's clock"`
	Epoch     uint64  `json:"epoch" doc:"of the new group"`
	Node      string  `json:"node" doc:"the SN that it began with"`
	LastIndex uint64  `json:"last_index" doc:"of the raft log that the SN had"`
	By        string  `json:"by" doc:"SPIFFE ID of the operator"`
}

type auditedContractJSON struct {
	Name         string             `json:"name" doc:"the contract's"`
	Run          uint64             `json:"run" doc:"the newest"`
	Rounds       int                `json:"rounds" doc:"of all runs"`
	LastRound    uint64             `json:"last_round" doc:"of the newest run"`
	Model        string             `json:"model" doc:"digest of its newest model"`
	Over         bool               `json:"over" doc:"its training has ended"`
	Participants []auditedShareJSON `json:"participants" doc:"by first appearance, over all runs"`
	Runs         []auditedRunJSON   `json:"runs" doc:"with rounds, in order"`
	Rules        []ruleSetJSON      `json:"rules" doc:"that operators gave it, in order"`
	Fetches      []fetchedByJSON    `json:"fetches" doc:"of its models by operators, in order"`
	Deletions    []deletionJSON     `json:"deletions" doc:"of contracts of the name, in order"`
	Halts        []haltOrderJSON    `json:"halts" doc:"operators paused, resumed or ended its training, in order"`
	Adoptions    []adoptionJSON     `json:"adoptions" doc:"models that were taken over after the SNs were restored from a backup, in order"`
	Deleted      bool               `json:"deleted" doc:"and not used again since"`
}

type deletionJSON struct {
	Record uint64  `json:"record" doc:"number of the ledger's record"`
	At     *string `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	Run    uint64  `json:"run" doc:"its last"`
	By     string  `json:"by" doc:"SPIFFE ID of the operator; empty: it went by itself, as nobody used it"`
}

type haltOrderJSON struct {
	Record uint64  `json:"record" doc:"number of the ledger's record"`
	At     *string `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	Run    uint64  `json:"run" doc:"the contract's"`
	Does   string  `json:"does" doc:"pause, resume or end"`
	By     string  `json:"by" doc:"SPIFFE ID of the operator"`
}

type adoptionJSON struct {
	Record       uint64  `json:"record" doc:"number of the ledger's record"`
	At           *string `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	Run          uint64  `json:"run" doc:"the contract's"`
	Last         uint64  `json:"last_round" doc:"the last one before it in this ledger, 0: none"`
	Proven       uint64  `json:"proven_round" doc:"in which the model was merged; the ledger lacks the rounds between"`
	Round        uint64  `json:"round" doc:"the number that the model has from there on"`
	Signed       int     `json:"signed" doc:"so many of its participants' signatures are on record"`
	Participants int     `json:"participants" doc:"who merged it"`
}

type auditedRunJSON struct {
	Run          uint64             `json:"run" doc:"its number"`
	Rounds       int                `json:"rounds" doc:"that were committed"`
	First        *string            `json:"first" doc:"when the first one was, by the SN that led; RFC 3339, UTC"`
	Last         *string            `json:"last" doc:"when the last one was"`
	Over         bool               `json:"over" doc:"its training has ended"`
	Participants []auditedShareJSON `json:"participants" doc:"by first appearance"`
}

type fetchedByJSON struct {
	Record uint64  `json:"record" doc:"number of the ledger's record"`
	At     *string `json:"at" doc:"when, by the SN that led; RFC 3339, UTC"`
	Run    uint64  `json:"run" doc:"of the model"`
	Round  uint64  `json:"round" doc:"of the model"`
	Node   string  `json:"node" doc:"that let it out, and signed that"`
	By     string  `json:"by" doc:"SPIFFE ID of the operator"`
}

type backwardsJSON struct {
	Record uint64  `json:"record" doc:"its number"`
	At     *string `json:"at" doc:"its time; RFC 3339, UTC"`
	After  *string `json:"after" doc:"latest time of a record before it"`
}

type auditedShareJSON struct {
	Node     string   `json:"node" doc:"name"`
	SpiffeID string   `json:"spiffe_id" doc:"that it registered with"`
	PeerID   string   `json:"peer_id" doc:"libp2p peer ID of its node key"`
	Rounds   int      `json:"rounds" doc:"that it signed"`
	Share    float64  `json:"share" doc:"of the contract's total weight, 0 to 1"`
	Programs []string `json:"programs" doc:"that it ran, as its SL said: file with SHA-256, and the image of its container; nobody signed that"`
}

type ledgerProblemJSON struct {
	Record uint64 `json:"record" doc:"its number, from 1"`
	Kind   string `json:"kind" doc:"of the record, empty if it does not read"`
	Field  string `json:"field" doc:"that is wrong"`
	What   string `json:"what" doc:"is wrong with it"`
}

func auditedToJSON(r *audit.Report, tasks []deeds.Deed) auditedJSON {
	out := auditedJSON{
		Good: r.Good(), SwarmID: r.SwarmID, Records: r.Records, Bytes: r.Bytes, Head: r.Head, Late: r.Late, Unwitnessed: r.Unwitnessed,
		Bundles: r.Bundles, Registrations: r.Registrations, Rounds: r.Rounds, Contracts: []auditedContractJSON{},
		Orders: r.Orders, Unsigned: r.Unsigned, UnsignedParts: r.UnsignedMembers, Ungrouped: r.UngroupedMembers, Reused: []reusedJSON{}, MoreReused: r.MoreReused, Recoveries: []recoveredJSON{}, Tasks: taskStepsToJSON(tasks), Backwards: []backwardsJSON{}, MoreBackwards: r.MoreBackwards, Problems: problemsToJSON(r), MoreProblems: r.More,
	}
	for _, x := range r.Reused {
		out.Reused = append(out.Reused, reusedJSON(x))
	}
	for _, x := range r.Recoveries {
		out.Recoveries = append(out.Recoveries, recoveredJSON{x.Record, stamp(x.AtMS), x.Epoch, x.Node, x.LastIndex, x.By})
	}
	for _, b := range r.Backwards {
		out.Backwards = append(out.Backwards, backwardsJSON{b.Record, stamp(b.AtMS), stamp(b.LatestMS)})
	}
	for _, c := range r.Contracts {
		x := auditedContractJSON{Name: c.Name, Run: c.Run, Rounds: c.Rounds, LastRound: c.LastRound, Model: c.Model, Over: c.Over, Participants: sharesToJSON(c.Participants), Runs: []auditedRunJSON{}, Rules: ruleSetsToJSON(c.Rules), Fetches: []fetchedByJSON{}, Deletions: []deletionJSON{}, Halts: []haltOrderJSON{}, Adoptions: []adoptionJSON{}, Deleted: c.Deleted}
		for _, f := range c.Fetches {
			x.Fetches = append(x.Fetches, fetchedByJSON{f.Record, stamp(f.AtMS), f.Run, f.Round, f.Node, f.By})
		}
		for _, d := range c.Deletions {
			x.Deletions = append(x.Deletions, deletionJSON{d.Record, stamp(d.AtMS), d.Run, d.By})
		}
		for _, h := range c.Halts {
			x.Halts = append(x.Halts, haltOrderJSON{h.Record, stamp(h.AtMS), h.Run, h.Does, h.By})
		}
		for _, a := range c.Adoptions {
			x.Adoptions = append(x.Adoptions, adoptionJSON{a.Record, stamp(a.AtMS), a.Run, a.Last, a.Proven, a.Round, a.Signed, a.Participants})
		}
		for _, run := range c.Runs {
			x.Runs = append(x.Runs, auditedRunJSON{run.Number, run.Rounds, stamp(run.FirstMS), stamp(run.LastMS), run.Over, sharesToJSON(run.Participants)})
		}
		out.Contracts = append(out.Contracts, x)
	}
	return out
}

func problemsToJSON(r *audit.Report) []ledgerProblemJSON {
	out := []ledgerProblemJSON{}
	for _, p := range r.Problems {
		out = append(out, ledgerProblemJSON(p))
	}
	return out
}

// deletedBy says how a contract went.
func deletedBy(operator string) string {
	if operator == "" {
		return "went by itself, as nobody used it"
	}
	return "was deleted by " + text.Line(operator)
}

// adoptionText says that a model was taken over after a backup was restored, and what the ledger lacks.
func adoptionText(contract string, x audit.Adoption) string {
	lacks := fmt.Sprintf("round %d was", x.Proven)
	if first := x.Last + 1; first < x.Proven {
		lacks = fmt.Sprintf("rounds %d to %d were", first, x.Proven)
	}
	return fmt.Sprintf("the SNs were restored from a backup: %s of %s, run %d, committed in a ledger that is gone; the model of round %d, which %d of its %s signed, goes on as round %d (record %d, %s)",
		lacks, text.Line(contract), x.Run, x.Proven, x.Signed, many(x.Participants, "participant"), x.Round, x.Record, dated(x.AtMS))
}

// haltedWord is what became of a contract by such an order.
func haltedWord(does string) string {
	switch does {
	case "pause":
		return "paused"
	case "resume":
		return "resumed"
	}
	return "ended"
}

// printOrders says what operators did to contracts.
func printOrders(w io.Writer, r *audit.Report) {
	for _, c := range r.Contracts {
		for _, x := range c.Rules {
			fmt.Fprintf(w, "rules of %s from run %d on: %s (record %d, %s, by %s)\n", text.Line(c.Name), x.Run, text.Line(first(rulesText(x.Rules), "none")), x.Record, dated(x.AtMS), text.Line(x.By))
		}
	}
	for _, c := range r.Contracts {
		for _, x := range c.Fetches {
			fmt.Fprintf(w, "model of round %d of %s, run %d, fetched from %s by %s (record %d, %s)\n", x.Round, text.Line(c.Name), x.Run, text.Line(x.Node), text.Line(x.By), x.Record, dated(x.AtMS))
		}
	}
	for _, c := range r.Contracts {
		for _, x := range c.Adoptions {
			fmt.Fprintln(w, adoptionText(c.Name, x))
		}
	}
	for _, c := range r.Contracts {
		for _, x := range c.Halts {
			fmt.Fprintf(w, "contract %s, run %d, was %s by %s (record %d, %s)\n", text.Line(c.Name), x.Run, haltedWord(x.Does), text.Line(x.By), x.Record, dated(x.AtMS))
		}
	}
	for _, c := range r.Contracts {
		for _, x := range c.Deletions {
			fmt.Fprintf(w, "contract %s, run %d, %s (record %d, %s)\n", text.Line(c.Name), x.Run, deletedBy(x.By), x.Record, dated(x.AtMS))
		}
	}
}

func printVerified(w io.Writer, r *audit.Report, tasks []deeds.Deed) error {
	t := table{header: []string{"CONTRACT", "RUN", "ROUNDS", "STATE", "FROM", "TO", "NODE", "SIGNED", "SHARE OF WEIGHT", "SPIFFE ID"}}
	var signers []string
	contracts := 0
	for _, c := range r.Contracts {
		if c.Rounds > 0 {
			contracts++
		}
		for _, run := range c.Runs {
			state := "training"
			switch {
			case run.Over:
				state = "over"
			case slices.ContainsFunc(c.Deletions, func(d audit.Deletion) bool { return d.Run == run.Number }):
				state = "deleted"
			case run.Number != c.Run:
				state = "reset"
			}
			head := []string{c.Name, utoa(run.Number), fmt.Sprint(run.Rounds), state, dated(run.FirstMS), dated(run.LastMS)}
			for _, p := range run.Participants {
				t.add(append(slices.Clone(head), p.Node, fmt.Sprint(p.Rounds), fmt.Sprintf("%.1f%%", 100*p.Share), p.SPIFFEID)...)
				head = []string{" ", " ", " ", " ", " ", " "}
				if !slices.Contains(signers, p.Node) {
					signers = append(signers, p.Node)
				}
			}
		}
	}
	if len(t.rows) > 0 {
		if err := t.print(w); err != nil {
			return err
		}
	}
	printOrders(w, r)
	printTaskSteps(w, tasks)
	for _, x := range r.Recoveries {
		fmt.Fprintf(w, "record %d: %s founded the group of SNs anew as epoch %d, from SN %s at raft index %d, %s\n", x.Record, text.Line(x.By), x.Epoch, text.Line(x.Node), x.LastIndex, dated(x.AtMS))
	}
	for _, b := range r.Backwards {
		fmt.Fprintf(w, "record %d is dated %s, before an earlier one of %s: the clock of an SN was wrong, or the record\n", b.Record, dated(b.AtMS), dated(b.LatestMS))
	}
	if r.MoreBackwards > 0 {
		fmt.Fprintf(w, "and %s more dated before an earlier one\n", many(r.MoreBackwards, "record"))
	}
	if printProblems(w, r); !r.Good() {
		return nil
	}
	fmt.Fprintf(w, "verified: the chain of %s is whole", many(int(r.Records), "record")) //nolint:gosec // they were counted one by one
	if r.Rounds > 0 {
		fmt.Fprintf(w, "; %s of %s signed by %s", many(r.Rounds, "round"), many(contracts, "contract"), text.Line(strings.Join(signers, ", ")))
	}
	fmt.Fprintf(w, "\nswarm %s, head %s\n", text.Line(r.SwarmID), r.Head)
	if r.Unsigned > 0 {
		fmt.Fprintf(w, "%s by operators without their signature, of before it was asked for\n", many(r.Unsigned, "change"))
	}
	if r.UnsignedMembers > 0 {
		fmt.Fprintf(w, "of %s in assignments the SNs alone say what became: the hosts did not sign it\n", many(r.UnsignedMembers, "part"))
	}
	if r.UngroupedMembers > 0 {
		fmt.Fprintf(w, "of %s in assignments the SNs alone say the group and the peers: the hosts signed neither yet\n", many(r.UngroupedMembers, "part"))
	}
	printReused(w, r)
	if r.Unwitnessed > 0 {
		fmt.Fprintf(w, "not yet witnessed by a later round or an operator: the last %s; apart from their own signatures, only the SNs vouch for them (compare heads: --head)\n",
			many(int(r.Unwitnessed), "record")) //nolint:gosec // they were counted one by one
	}
	if r.Late {
		fmt.Fprintln(w, "the swarm had trained before its ledger began: nothing is proven of that time")
	}
	return nil
}

// printReused says which assignments have the ID of an earlier one.
func printReused(w io.Writer, r *audit.Report) {
	for _, x := range r.Reused {
		fmt.Fprintf(w, "record %d assigns under ID %s, which was used in record %d: what hosts signed under it may be about either\n", x.Record, text.Line(x.Assignment), x.Before)
	}
	if r.MoreReused > 0 {
		fmt.Fprintf(w, "and %s more under an ID that was used before\n", many(r.MoreReused, "assignment"))
	}
}

// printProblems says what is wrong.
func printProblems(w io.Writer, r *audit.Report) {
	for _, p := range r.Problems {
		fmt.Fprintf(w, "wrong: %s\n", text.Line(p.Error()))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "and %d more\n", r.More)
	}
}

// many is a number with its noun.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
