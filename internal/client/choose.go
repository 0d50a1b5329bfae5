package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
)

const (
	// askTimeout bounds the question to one SN of which swarm it is.
	askTimeout = 3 * time.Second
	// askRest is for how long the others are heard once most SNs have said the same.
	askRest = 500 * time.Millisecond
)

// said is which swarm one SN is of, by its own word; empty: it gave no answer.
type said struct{ sn, swarm string }

// Choose asks all SNs that were named which swarm they are of, unless one is pinned or a single SN is known, and pins the swarm of
// most of those that answer: one that lost its state and founded anew must not speak for the others. If they differ it returns who
// says what, in one line; if no swarm has most of them it is an error. Where none answers it pins nothing, and the next call waits.
func (c *Client) Choose(ctx context.Context) (differ string, err error) {
	sns := c.SNs()
	if c.PinnedSwarmID() != "" || len(sns) < 2 {
		return "", nil
	}
	by, answers := map[string][]string{}, 0
	for _, s := range c.epochs.swarmsOf(ctx, sns) {
		if s.swarm != "" {
			by[s.swarm] = append(by[s.swarm], s.sn)
			answers++
		}
	}
	best := ""
	for swarm, of := range by {
		slices.SortFunc(of, func(a, b string) int { return slices.Index(sns, a) - slices.Index(sns, b) })
		if 2*len(of) > answers {
			best = swarm
		}
	}
	switch text := differing(sns, by); {
	case answers == 0:
		return "", nil
	case best == "":
		return "", &Error{
			Reason: ReasonSwarmsDiffer, Code: connect.CodeFailedPrecondition, Message: text, err: errors.New("different swarms"),
			Remedy: "name only SNs of the swarm that you mean: one that lost its state may have founded a swarm of its own",
		}
	case len(by) > 1:
		differ = fmt.Sprintf("%s; going on with swarm %.64s, of which %d of %d are", text, best, len(by[best]), answers)
	}
	c.dir.choose(best, by[best][0])
	return differ, nil
}

// swarmsOf asks all at once, each one time.
func (e epochs) swarmsOf(ctx context.Context, sns []string) []said {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make(chan said, len(sns))
	for _, sn := range sns {
		go func() { answers <- said{sn, e.swarmOf(ctx, sn)} }()
	}
	out := make([]said, 0, len(sns))
	same := map[string]int{}
	for range sns {
		s := <-answers
		out = append(out, s)
		if same[s.swarm]++; s.swarm != "" && 2*same[s.swarm] > len(sns) {
			defer time.AfterFunc(askRest, cancel).Stop()
		}
	}
	return out
}

// swarmOf is empty if the SN does not answer.
func (e epochs) swarmOf(ctx context.Context, sn string) string {
	res, err := e.at(ctx, sn)
	if err != nil {
		return ""
	}
	return cmp.Or(res.GetEpoch(), res.GetSwarmId())
}

// differing says which SNs are of which swarm, in the order of the SNs.
func differing(sns []string, by map[string][]string) string {
	var parts []string
	for _, sn := range sns {
		for swarm, of := range by {
			switch {
			case of[0] != sn:
			case len(of) == 1:
				parts = append(parts, fmt.Sprintf("%s is of swarm %.64s", sn, swarm))
			default:
				parts = append(parts, fmt.Sprintf("%s are of swarm %.64s", strings.Join(of, " and "), swarm))
			}
		}
	}
	return "the SNs are of different swarms: " + strings.Join(parts, ", ")
}
