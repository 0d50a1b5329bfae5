package swci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/modelfile"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

func modelCommands() []*Command {
	return []*Command{
		{
			Pattern: "list models [CONTRACT]", Group: "Models", Shell: true,
			Summary: "Show the merged models, and which nodes have them",
			Details: "Prints the committed models of a contract's current run that live SLs hold, newest first. An SL holds the last committed model, and up to three as files in its state directory. If no running node has the last one, it says who had it last.\n\nCONTRACT is " + wire.DefaultContract + " if it is left out.",
			Example: "list models",
			JSON:    modelsJSON{},
			Run:     listModels,
		},
		{
			Pattern: "get model CONTRACT", Group: "Models", Shell: true,
			Summary: "Fetch a merged model into a file",
			Details: "Fetches the last committed model of a contract, or the one that --round or --digest names, from a node that holds it, checks its digest, and writes it as safetensors: numpy, PyTorch and others read that. Contract, run, round, digest, method and layout stand in the file's metadata. If the connection breaks, the next holder continues where it stopped.\n\nRefused unless the contract's rules let models out: swarmctl create contract CONTRACT --export, before anybody takes part. Swarms of swarmctl local do for " + wire.DefaultContract + ".",
			Example: "get model defaultbb.cqdb.sml.hpe --out model.safetensors",
			Flags: []cli.Flag{
				&cli.Uint64Flag{Name: "round", Usage: "model of round `N`; the last one if not given"},
				&cli.StringFlag{Name: "digest", Usage: "model with this `DIGEST`, or the only one that begins so"},
				&cli.StringFlag{Name: "out", Usage: "`FILE` to write; CONTRACT-round-N.safetensors if not given"},
				&cli.BoolFlag{Name: "force", Usage: "write over a file that is there"},
			},
			JSON: fetchedJSON{},
			Run:  getModel,
		},
		{
			Pattern: "verify model FILE", Group: "Models", Shell: true,
			Summary: "Check that a model file is what a swarm committed",
			Details: "Computes the digest of a file that get model wrote, from the tensors themselves, and compares it with the file's metadata. With --ledger all that the file says (swarm, contract, run, round, method, layout, tensors) must stand in that copy of the ledger too, which needs no swarm: the whole copy is checked, and the command says who made the model, in which rounds, when, and by which rules. Signatures are checked if --bundle names the CA certificates of the swarm's founding, as \"verify ledger\" takes them. Without --ledger, and if an SN is known, the SN is asked.\n\nEnds with exit code 1 if anything differs.",
			Example: "verify model model.safetensors --ledger ledger.jsonl --bundle founding-ca.pem",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "ledger", Usage: "copy of the ledger in `FILE`, from get ledger"},
				&cli.StringSliceFlag{Name: "bundle", Usage: "PEM `FILE` with CA certificates that signed when the swarm was founded, for signatures in the ledger; repeatable"},
			},
			JSON: verifiedJSON{},
			Run:  verifyModel,
		},
	}
}

// modelsJSON is `list models -o json`.
type modelsJSON struct {
	Contract string      `json:"contract" doc:"its name"`
	Run      uint64      `json:"run" doc:"number of the run, from 1"`
	Export   bool        `json:"export" doc:"get model is allowed"`
	Models   []modelJSON `json:"models" doc:"newest first"`
	Note     string      `json:"note" doc:"who held the last model, when no node that runs does; else empty"`
}

// modelJSON is one element of the models of `list models -o json`.
type modelJSON struct {
	Round       uint64   `json:"round" doc:"in which it was committed"`
	Digest      string   `json:"digest" doc:"BLAKE3, in hex"`
	StateDigest string   `json:"state_digest" doc:"of the optimiser's state that is held with it, empty if the method has none"`
	Final       bool     `json:"final" doc:"the training ended with it"`
	Committed   *string  `json:"committed" doc:"RFC 3339, UTC; null when the SN does not remember"`
	Holders     []string `json:"holders" doc:"nodes that hold it"`
}

// fetchedJSON is `get model CONTRACT -o json`.
type fetchedJSON struct {
	File   string `json:"file" doc:"that was written"`
	Round  uint64 `json:"round" doc:"of the model"`
	Digest string `json:"digest" doc:"BLAKE3 of the flat vector, in hex; checked"`
	From   string `json:"from" doc:"node that the last byte came from"`
	Bytes  int64  `json:"bytes" doc:"of the flat vector"`
}

// verifiedJSON is `verify model FILE -o json`.
type verifiedJSON struct {
	File      string    `json:"file" doc:"as it was given"`
	Contract  string    `json:"contract" doc:"by the file's metadata"`
	Run       uint64    `json:"run" doc:"by the file's metadata"`
	Round     uint64    `json:"round" doc:"by the file's metadata"`
	Digest    string    `json:"digest" doc:"BLAKE3 of the tensors, which is that of the metadata"`
	Committed string    `json:"committed" doc:"who says that the swarm committed it: ledger, swarm, or empty if nobody was asked"`
	Made      *madeJSON `json:"made" doc:"how it came to be, by the ledger; null without one"`
}

func listModels(ctx context.Context, s *Session, args Args) error {
	name := first(args.Value("CONTRACT"), wire.DefaultContract)
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		list, err := api.ListModels(ctx, name)
		if err != nil {
			return fmt.Errorf("list models of %q: %w", name, err)
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, modelsToJSON(name, list))
		}
		t := table{header: []string{"ROUND", "DIGEST", "FINAL", "COMMITTED", "HELD BY"}}
		for _, m := range list.GetModels() {
			when := ago(s.Env.Now(), m.GetCommittedUnixMs())
			if when != "" {
				when += " ago"
			}
			t.add(utoa(m.GetRound()), m.GetDigest(), yesNo(m.GetFinal()), when, strings.Join(nodesOf(m.GetHolders()), ", "))
		}
		if err := t.print(s.Env.Stdout); err != nil {
			return err
		}
		if note := list.GetNote(); note != "" {
			fmt.Fprintf(s.Env.Stderr, "swarmctl: %s\n", text.Line(note))
		}
		return nil
	})
}

func modelsToJSON(name string, list *swarmv1.ListModelsResponse) modelsJSON {
	out := modelsJSON{Contract: name, Run: list.GetRun(), Export: list.GetExport(), Models: []modelJSON{}, Note: list.GetNote()}
	for _, m := range list.GetModels() {
		out.Models = append(out.Models, modelJSON{
			Round: m.GetRound(), Digest: m.GetDigest(), StateDigest: m.GetStateDigest(), Final: m.GetFinal(), Committed: stamp(m.GetCommittedUnixMs()),
			Holders: nodesOf(m.GetHolders()),
		})
	}
	return out
}

func nodesOf(holders []*swarmv1.Session) []string {
	out := []string{}
	for _, h := range holders {
		out = append(out, h.GetNode())
	}
	return out
}

// getTries is how often the newest model is looked for again when a training that goes on replaces it meanwhile.
const getTries = 6

// getPause lies between two tries: what holders have is known a heartbeat later at most.
const getPause = 250 * time.Millisecond

func getModel(ctx context.Context, s *Session, args Args) error {
	if s.own != nil { // The SNs and the holder are asked with one identity: a second agent of this directory would wait for the first.
		defer s.own.keep()()
	}
	pinned := args.Opts.IsSet("round") || args.Opts.IsSet("digest")
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		for try := 0; ; try++ {
			err := apiError(getOne(ctx, s, args, api, try/2))
			var own *exit.Error // tells what is wrong; anything else is a holder's
			if err == nil || pinned || try+1 == getTries || ctx.Err() != nil || errors.As(err, &own) {
				return err
			}
			select {
			case <-time.After(getPause):
			case <-ctx.Done():
			}
		}
	})
}

// findModel finds the model that is asked for, or, if none is named, that which so many newer ones are held before: while rounds
// follow each other fast, copies on disk last longer than what is in memory.
func findModel(ctx context.Context, s *Session, args Args, api client.Operator, older int) (*modelFetch, error) {
	name := args.Value("CONTRACT")
	list, err := api.ListModels(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("get model of %q: %w", name, err)
	}
	if !list.GetExport() {
		return nil, exit.New(exit.Denied, "let models out before anybody takes part: swarmctl create contract "+name+" --export",
			"the rules of contract %s do not let models out of the nodes that train", name)
	}
	list.Models = list.GetModels()[max(0, min(older, len(list.GetModels())-1)):]
	m, err := pickModel(name, list, args.Opts.Uint64("round"), args.Opts.String("digest"))
	if err != nil {
		return nil, err
	}
	layout, err := merge.ParseLayout(list.GetLayout())
	if err != nil {
		return nil, fmt.Errorf("get model of %q: %w", name, err)
	}
	swarm, err := api.GetSwarm(ctx)
	if err != nil {
		return nil, fmt.Errorf("get model of %q: %w", name, err)
	}
	return &modelFetch{session: s, opts: args.Opts, model: m, named: first(swarm.GetEpoch(), swarm.GetSwarmId()), meta: modelfile.Meta{
		Swarm: swarm.GetSwarmId(), Contract: name, Run: list.GetRun(), Round: m.GetRound(), Digest: m.GetDigest(), Method: list.GetMethod(),
		Final: m.GetFinal(), Layout: layout,
	}}, nil
}

// fileName is that of the model's file, unless another is asked for.
func (j *modelFetch) fileName() string {
	return fmt.Sprintf("%s-round-%d.safetensors", j.meta.Contract, j.meta.Round)
}

// getOne gets what findModel finds.
func getOne(ctx context.Context, s *Session, args Args, api client.Operator, older int) error {
	job, err := findModel(ctx, s, args, api, older)
	if err != nil {
		return err
	}
	name, m, out := job.meta.Contract, job.model, first(args.Opts.String("out"), job.fileName())
	if err := writeFile(out, 0o600, args.Opts.Bool("force"), func(f io.Writer) error { return job.run(ctx, f) }); err != nil {
		return fmt.Errorf("get model of %q: %w", name, err)
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, fetchedJSON{out, m.GetRound(), m.GetDigest(), job.from, job.meta.Layout.Bytes()})
	}
	fmt.Fprintf(s.Env.Stdout, "%s: model of round %d from %s, digest %s\n", text.Line(out), m.GetRound(), text.Line(job.from), text.Line(m.GetDigest()))
	return nil
}

// pickModel finds the model that round and digest name; 0 and empty name the newest.
func pickModel(contract string, list *swarmv1.ListModelsResponse, round uint64, digest string) (*swarmv1.Model, error) {
	var found []*swarmv1.Model
	for _, m := range list.GetModels() {
		if (round == 0 || m.GetRound() == round) && strings.HasPrefix(m.GetDigest(), strings.ToLower(digest)) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 0 && list.GetNote() != "":
		return nil, exit.New(exit.NotFound, "swarmctl list models "+contract+" shows what is held", "%s", text.Line(list.GetNote()))
	case len(found) == 0:
		return nil, exit.New(exit.NotFound, "swarmctl list models "+contract+" shows what is held", "no node that runs holds %s of contract %s", asked(round, digest), contract)
	case digest != "" && found[len(found)-1].GetDigest() != found[0].GetDigest():
		return nil, exit.New(exit.Usage, "give more of the digest", "%d models begin with %s", len(found), digest)
	}
	return found[0], nil
}

// asked says which model was asked for.
func asked(round uint64, digest string) string {
	switch {
	case round != 0 && digest != "":
		return "a model of round " + utoa(round) + " whose digest begins with " + text.Line(digest)
	case round != 0:
		return "the model of round " + utoa(round)
	case digest != "":
		return "a model whose digest begins with " + text.Line(digest)
	}
	return "a model"
}

func verifyModel(ctx context.Context, s *Session, args Args) error {
	path := args.Value("FILE")
	f, err := os.Open(path)
	if err != nil {
		return exit.New(exit.NotFound, "swarmctl get model writes one", "verify model: %w", err)
	}
	defer func() { _ = f.Close() }()
	m, err := modelfile.ReadHeader(f)
	var got string
	if err == nil {
		got, err = modelfile.DigestTensors(f, m.Layout)
	}
	if err == nil && got != m.Digest {
		err = fmt.Errorf("its tensors have digest %s, its metadata say %s: it was changed", got, m.Digest)
	}
	if err != nil {
		return exit.New(exit.Failed, "fetch it again: swarmctl get model", "verify model %s: %w", path, err)
	}
	if args.Opts.IsSet("bundle") && args.Opts.String("ledger") == "" {
		return exit.New(exit.Usage, "give --ledger too: the certificates are for the signatures in it", "option --ledger is missing")
	}
	out := verifiedJSON{File: path, Contract: m.Contract, Run: m.Run, Round: m.Round, Digest: got}
	says := []string{"not compared with what was committed: give --ledger FILE, or --sn"}
	if args.Opts.String("ledger") != "" {
		made, err := inLedger(args.Opts, s.Env.Getenv, m)
		if err != nil {
			return failed(fmt.Errorf("verify model %s: %w", path, err))
		}
		out.Committed, out.Made, says = "ledger", made.json(), made.words(m.Run)
	} else {
		if out.Committed, err = committedBy(ctx, s, args.Opts, m); err != nil {
			return exit.New(exit.Failed, "", "verify model %s: %w", path, err)
		}
		if out.Committed != "" {
			says = []string{"committed: the SN says so"}
		}
	}
	if s.JSON {
		return printJSON(s.Env.Stdout, out)
	}
	fmt.Fprintf(s.Env.Stdout, "%s: contract %s, run %d, round %d\ndigest %s: the tensors have it\n%s\n", text.Line(path), text.Line(m.Contract), m.Run, m.Round, got, strings.Join(says, "\n"))
	return nil
}

// failed gives an error the exit code of a check that failed, unless it has one, and keeps its hint.
func failed(err error) error {
	if own := (*exit.Error)(nil); errors.As(err, &own) {
		return exit.New(own.Status, own.Hint, "%w", err)
	}
	return exit.New(exit.Failed, "", "%w", err)
}

// committedBy finds out whether the model was committed, and names who says so; empty: nobody could be asked.
func committedBy(ctx context.Context, s *Session, opts *cli.Context, m modelfile.Meta) (string, error) {
	if !s.knowsSwarm(opts) {
		return "", nil
	}
	by := ""
	err := s.withAPI(ctx, opts, func(api client.Operator) error {
		st, err := api.GetContractStatus(ctx, m.Contract)
		if err != nil {
			return err
		}
		for _, r := range append(st.GetRecent(), st.GetContract().GetCommitted()) {
			if r == nil || st.GetContract().GetRun() != m.Run || r.GetRound() != m.Round {
				continue
			}
			if by = "swarm"; r.GetDigest() != m.Digest {
				return fmt.Errorf("contract %s committed %.16s… in round %d, the file has %.16s…", m.Contract, r.GetDigest(), m.Round, m.Digest)
			}
		}
		return nil
	})
	return by, err
}

// knowsSwarm reports whether there is a swarm to ask.
func (s *Session) knowsSwarm(opts *cli.Context) bool {
	target, err := s.anyTarget(opts)
	return err == nil && len(target.SNs) > 0 && target.Identity != ""
}

// lostTo names what training went back to.
func lostTo(round uint64) string {
	if round == 0 {
		return "the beginning"
	}
	return "the model of round " + utoa(round)
}
