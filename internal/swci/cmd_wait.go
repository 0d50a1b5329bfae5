package swci

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

func waitCommands() []*Command {
	return []*Command{
		{
			Pattern: "wait for [ip] HOST [PORT] [RETRIES]", Group: "Contexts", Shell: true,
			Summary: "Wait until an SN answers",
			Details: "Asks the SN's API every 5 seconds until it answers, RETRIES times at most (360 if not given: half an hour). PORT is 30304 if it is not given. No context is needed. An error that waiting can't cure, such as a refused identity, ends it at once. Exit code 8 if the SN has not answered.",
			Example: "wait for ip node-sn",
			JSON:    waitedJSON{},
			Run: func(ctx context.Context, s *Session, args Args) error {
				return waitFor(ctx, s, args, apiPort)
			},
		},
		{
			Pattern: "wait for service HOST [RETRIES]", Group: "Contexts", Shell: true,
			Summary: "Wait until an SN behind a proxy answers",
			Details: "Does what \"wait for\" does. HOST is what the proxy calls the API, with its port behind a colon if that is not 443. A host that is called service stands behind the word ip.",
			Example: "wait for service sn.example",
			JSON:    waitedJSON{},
			Run: func(ctx context.Context, s *Session, args Args) error {
				return waitFor(ctx, s, args, servicePort)
			},
		},
	}
}

// waitedJSON is `wait for HOST -o json`.
type waitedJSON struct {
	SN    string `json:"sn" doc:"API address of the SN that answers, HOST:PORT"`
	Tries int    `json:"tries" doc:"how often it was asked"`
}

func (waitedJSON) words(l *lines) { l.say(apiIsUp) }

// As the original waits.
const (
	defaultTries = 360
	betweenTries = 5 * time.Second
	maxTries     = maxSleep / 5
)

func waitFor(ctx context.Context, s *Session, args Args, defaultPort string) error {
	sn, err := apiAddress(args.Value("HOST"), args.Value("PORT"), defaultPort)
	if err != nil {
		return err
	}
	tries := defaultTries
	if given := args.Value("RETRIES"); given != "" {
		if tries, err = strconv.Atoi(given); err != nil || tries < 1 || tries > maxTries {
			return exit.New(exit.Usage, "the host, its port, then how often it is asked: wait for ip sn1 30304 60", "%.80q is no number of tries up to %d", given, maxTries)
		}
	}
	target, err := s.targetAt(args.Opts, sn)
	if err != nil {
		return err
	}
	if s.own != nil && s.prompt == nil {
		defer s.own.keep()() // an agent that is started for it serves all tries
	}
	tried, err := untilUp(ctx, s, target, tries)
	if err != nil {
		return err
	}
	return s.show(waitedJSON{sn, tried}, func() error {
		fmt.Fprintf(s.Env.Stderr, "the SN at %s answers\n", sn)
		return nil
	})
}

// untilUp asks the target's SN until it answers. It says why it has not yet, once for each reason. A try takes as long as the time
// between two at most.
func untilUp(ctx context.Context, s *Session, target Context, tries int) (tried int, err error) {
	next := time.NewTicker(betweenTries)
	defer next.Stop()
	var why string
	for tried = 1; ; tried++ {
		if _, err = s.probe(ctx, target, betweenTries); err == nil {
			return tried, nil
		}
		if ctx.Err() != nil {
			return tried, context.Cause(ctx)
		}
		switch exit.Code(apiError(err)) {
		case exit.Unreachable, exit.NoLeader, exit.TimedOut:
		default:
			return tried, err
		}
		if tried == tries {
			return tried, exit.New(exit.TimedOut, exit.Hint(apiError(err)), "%s has not answered, try %d of %d: %w", target.SNs[0], tried, tries, err)
		}
		if said := text.Line(err.Error()); said != why {
			if why == "" && s.inWords() {
				fmt.Fprintf(s.Env.Stdout, "WAITING FOR API SERVER %s - Maximum wait time is : %s\n", target.SNs[0], atMost(tries))
			}
			why = said
			s.say(why)
		}
		select {
		case <-ctx.Done():
			return tried, context.Cause(ctx)
		case <-next.C:
		}
	}
}

// atMost is how long so many tries take, as the original says it.
func atMost(tries int) string {
	seconds := tries * int(betweenTries/time.Second)
	if seconds%60 == 0 {
		return fmt.Sprintf("%d mins", seconds/60)
	}
	return fmt.Sprintf("%d secs", seconds)
}
