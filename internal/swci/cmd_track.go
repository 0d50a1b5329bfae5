package swci

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track"
	"github.com/swarmd/swarmd/internal/swci/track/mlflow"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/version"
)

// trackExperiment is where runs are made unless told otherwise.
const trackExperiment = "swarmd"

func trackCommands() []*Command {
	return []*Command{{
		Pattern: "track contract NAME", Group: "Watch",
		Summary: "Write a training's rounds into MLflow or for TensorBoard",
		Details: "Follows the contract until its training is complete, or until Ctrl-C, and writes each round once: the loss and the metric of the merged model, bytes, and how long phases took, as \"get contract history\" has them. For MLflow there is a run of the swarm, and in it a run of each peer; for TensorBoard a directory swarm, and one of each peer. It only reads of the swarm, and asks every 2 seconds at most.\n\n" +
			"It may be ended and begun again at any time, and MLflow may be down meanwhile: it goes on behind the last round that is written, and takes what is missing from the swarm's history. A round is written as soon as no more can be told of it: when all peers have said how good its model is and the next one was committed, else after 30 seconds. Rounds that the history lacks are waited for half a minute, with --once too. After \"reset contract\" new runs begin.\n\n" +
			"MLflow's variables say who asks: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. The runs of a contract that was reset or deleted are ended as KILLED, also if that was while nobody tracked it: call the command again. Let one swarmctl at a time write a training into an experiment.",
		Example: "track contract defaultbb.cqdb.sml.hpe --mlflow http://127.0.0.1:5000 --tensorboard runs",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "mlflow", Usage: "`URI` of an MLflow server"},
			&cli.StringFlag{Name: "experiment", Usage: "experiment `NAME` of MLflow's; MLFLOW_EXPERIMENT_NAME or " + trackExperiment + " if not given"},
			&cli.StringFlag{Name: "tensorboard", Usage: "`DIR` that event files are written into"},
			&cli.BoolFlag{Name: "once", Usage: "write what there is, and end; of a training that is complete, all of it"},
		},
		JSON: trackedJSON{},
		Run:  trackContract,
	}}
}

// trackedJSON is `track contract NAME -o json`, which is printed at the end.
type trackedJSON struct {
	Contract    string            `json:"contract" doc:"its name"`
	Run         uint64            `json:"run" doc:"number of the run, 0 when it has not begun"`
	Complete    bool              `json:"complete" doc:"the training is over"`
	MLflow      *trackedMLflow    `json:"mlflow" doc:"null: not asked for"`
	TensorBoard *trackedDirectory `json:"tensorboard" doc:"null: not asked for"`
}

type trackedRounds struct {
	Written uint64 `json:"written" doc:"rounds that this command has written here"`
	Last    uint64 `json:"last" doc:"the last round that is here, 0 for none"`
	LeftOut uint64 `json:"left_out" doc:"rounds among and behind those that are not, as the swarm's history lacks them"`
}

type trackedMLflow struct {
	URI          string `json:"uri" doc:"as it was given"`
	Experiment   string `json:"experiment" doc:"its name"`
	ExperimentID string `json:"experiment_id" doc:"its ID, empty when MLflow did not answer"`
	RunID        string `json:"run_id" doc:"of the swarm's run, likewise"`
	trackedRounds
}

type trackedDirectory struct {
	Directory string `json:"directory" doc:"with a directory swarm and one of each peer"`
	trackedRounds
}

// trackers are those that a user has asked for.
type trackers struct {
	uri, name  string // of MLflow and the experiment
	experiment *track.Experiment
	board      *track.Board
	sinks      []track.Sink
	close      []func()
}

func trackContract(ctx context.Context, s *Session, args Args) error {
	name := args.Value("NAME")
	of, err := openTrackers(s, args.Opts)
	if err != nil {
		return err
	}
	defer func() {
		for _, end := range of.close {
			end()
		}
	}()
	if s.own != nil {
		defer s.own.keep()() // one identity for as long as it goes on
	}
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		f := track.Follower{Config: track.Config{Source: &trackedContract{api: api, name: name, say: s.say}, Sinks: of.sinks, Once: args.Opts.Bool("once"), Say: s.say}}
		done, err := f.Run(ctx)
		wrote := slices.ContainsFunc(done.Sinks, func(w track.Written) bool { return w.Rounds > 0 })
		if err == nil || ctx.Err() != nil || wrote {
			if shown := of.show(s, name, done); err == nil {
				err = shown
			}
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("track contract %q: %w", name, err)
		}
		return err
	})
}

// openTrackers opens what the options name.
func openTrackers(s *Session, opts *cli.Context) (of *trackers, err error) {
	of = &trackers{uri: opts.String("mlflow"), name: first(opts.String("experiment"), s.Env.Getenv("MLFLOW_EXPERIMENT_NAME"), trackExperiment)}
	dir := opts.String("tensorboard")
	switch {
	case of.uri == "" && dir == "":
		return nil, exit.New(exit.Usage, "give --mlflow http://127.0.0.1:5000, --tensorboard DIR, or both", "nothing to write to is given")
	case of.uri == "" && opts.IsSet("experiment"):
		return nil, exit.New(exit.Usage, "give --mlflow too", "--experiment is for MLflow")
	}
	if of.uri != "" {
		c, err := mlflow.New(mlflow.Config{
			URI: of.uri, Token: s.Env.Getenv("MLFLOW_TRACKING_TOKEN"), Username: s.Env.Getenv("MLFLOW_TRACKING_USERNAME"), Password: s.Env.Getenv("MLFLOW_TRACKING_PASSWORD"),
			Agent: "swarmctl/" + strings.Join(strings.Fields(version.Read().String()), "-"),
		})
		if err != nil {
			return nil, err
		}
		of.experiment = track.NewExperiment(c, of.name, s.say)
		of.sinks, of.close = append(of.sinks, of.experiment), append(of.close, c.Close)
	}
	if dir != "" {
		if of.board, err = track.OpenBoard(dir, s.say); err != nil {
			return nil, err
		}
		of.sinks, of.close = append(of.sinks, of.board), append(of.close, func() {
			if err := of.board.Close(); err != nil {
				s.say(fmt.Sprintf("close %s: %v", dir, err))
			}
		})
	}
	return of, nil
}

// show says what was written.
func (of *trackers) show(s *Session, name string, done track.Result) error {
	out := trackedJSON{Contract: name, Run: done.Run, Complete: done.Over}
	goes := "goes on"
	if out.Complete {
		goes = "is complete"
	}
	lines := []string{fmt.Sprintf("contract %s, run %d: the training %s", text.Line(name), out.Run, goes)}
	for i, w := range done.Sinks {
		rounds := trackedRounds{w.Rounds, w.Last, w.LeftOut}
		if sink := of.sinks[i]; sink == track.Sink(of.experiment) {
			out.MLflow = &trackedMLflow{of.uri, of.name, of.experiment.ID(), of.experiment.Run(), rounds}
		} else {
			out.TensorBoard = &trackedDirectory{of.board.Dir(), rounds}
		}
		lines = append(lines, fmt.Sprintf("%s: %s", of.sinks[i], rounds.line()))
	}
	return s.show(out, func() error {
		if out.Run == 0 {
			return nil
		}
		_, err := fmt.Fprintln(s.Env.Stdout, strings.Join(lines, "\n"))
		return err
	})
}

// line says it to people.
func (r trackedRounds) line() string {
	if r.Last == 0 && r.LeftOut == 0 {
		return "no round is settled yet"
	}
	line := fmt.Sprintf("wrote %s, up to round %d", many(int(r.Written), "round"), r.Last) //nolint:gosec // rounds were counted one by one
	if r.LeftOut > 0 {
		line += "; left out, as the swarm's history lacks them: " + many(int(r.LeftOut), "round") //nolint:gosec // likewise
	}
	return line
}
