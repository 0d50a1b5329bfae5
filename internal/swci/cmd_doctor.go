package swci

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

const (
	// doctorLook is how often a probe is looked at, and doctorCall bounds each look: without a quorum the doctor must end.
	doctorLook = time.Second
	doctorCall = 15 * time.Second
	// doctorLimit is a little longer than a probe lasts.
	doctorLimit = 2 * time.Minute
)

func doctorCommands() []*Command {
	return []*Command{{
		Pattern: "doctor", Group: "Nodes", Shell: true,
		Summary: "Check every connection between nodes, and show what is wrong",
		Details: "Each SL probes each other SL and each SN's API, each SN each other SN, in both directions: whether a new connection succeeds, the round trip, the bandwidth in about a second (between SLs and between SNs; not while a merge is under way), and how far the clocks differ. It also shows each node's version, health and certificate. Below each red line it says what to do.\n\n" +
			"One probe runs in a swarm at a time, and one a minute: if one has begun less than a minute ago, its result is shown.\n\n" +
			"Ends with exit code 1 if a line is red; warnings do not count. `swarmd doctor run-sl OPTIONS` checks a node before it joins.",
		Example: "doctor",
		JSON:    doctor.Swarm{},
		Run:     runDoctor,
	}}
}

func runDoctor(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		found, err := probeSwarm(ctx, s, api)
		if err != nil {
			return err
		}
		if s.JSON {
			err = printJSON(s.Env.Stdout, found)
		} else {
			err = found.Print(s.Env.Stdout, coloured(s.Env))
		}
		if err == nil && !found.OK {
			err = exit.New(exit.Failed, "", "not all is well")
		}
		return err
	})
}

// coloured reports whether standard output shows colours.
func coloured(e Env) bool {
	return e.IsTerminal(e.Stdout) && e.Getenv("NO_COLOR") == ""
}

// probeSwarm starts a probe and follows it to its end. What keeps it from that is a row of what it returns.
func probeSwarm(ctx context.Context, s *Session, api client.Operator) (*doctor.Swarm, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	health := func() ([]client.SNHealth, error) {
		ctx, cancel := context.WithTimeout(ctx, doctorCall)
		defer cancel()
		return api.GetHealth(ctx)
	}
	answers, err := health()
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	run, rows := startProbe(ctx, api)
	moving := &redrawn{to: s}
	for {
		res, err := getProbe(ctx, api)
		if err != nil || res.GetOver() || ctx.Err() != nil || run != 0 && res.GetRun() != run {
			switch {
			case err != nil:
				rows = append(rows, probeRow(err))
			case run != 0 && res.GetRun() != run:
				rows = append(rows, doctor.Fail("probe", "another SN leads now, and knows nothing of the probe", "run swarmctl doctor again"))
				res = nil
			}
			moving.clear()
			return assemble(s.Env.Now(), answers, res, rows, true), nil
		}
		moving.draw(assemble(s.Env.Now(), answers, res, rows, false))
		_ = pause.For(ctx, doctorLook) // that ctx has ended is seen above
	}
}

// startProbe returns the probe's number, 0 if none has begun, and what is to be said of it.
func startProbe(ctx context.Context, api client.Operator) (uint64, []doctor.Row) {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	run, err := api.StartProbe(ctx)
	switch {
	case err == nil:
		return run, nil
	case client.Reason(err) == "PROBE_BUSY":
		return 0, []doctor.Row{doctor.Warn("probe", err.Error()+"; this is what the last one has found", "run swarmctl doctor again in a minute")}
	}
	return 0, []doctor.Row{probeRow(err)}
}

func getProbe(ctx context.Context, api client.Operator) (*swarmv1.GetProbeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorCall)
	defer cancel()
	return api.GetProbe(ctx)
}

func probeRow(err error) doctor.Row {
	return doctor.Fail("probe", "the SNs start none: "+err.Error(), cmp.Or(client.Remedy(err), "see swarmctl get health"))
}

// assemble joins what SNs say of health and what a probe has found.
func assemble(now time.Time, answers []client.SNHealth, probe *swarmv1.GetProbeResponse, rows []doctor.Row, over bool) *doctor.Swarm {
	out := &doctor.Swarm{Nodes: []doctor.Node{}, Links: []doctor.Link{}, Rows: []doctor.Row{}}
	probed := map[string]*swarmv1.ProbeNode{}
	for _, n := range probe.GetNodes() {
		probed[n.GetName()] = n
	}
	for _, h := range joinHealth(answers) {
		out.Nodes = append(out.Nodes, nodeFound(now, h, probed[h.GetName()], over))
	}
	for _, l := range probe.GetLinks() {
		x := doctor.Link{From: l.GetFrom(), To: l.GetTo(), Address: l.GetAddress(), API: l.GetApi()}
		x.Judge(doctor.Probed{
			Said: l.Result != nil, Problem: l.GetResult().GetProblem(), RoundTrip: time.Duration(l.GetResult().GetRoundTripUs()) * time.Microsecond,
			ClockKnown: l.GetResult().GetClockKnown(), Ahead: time.Duration(l.GetResult().GetClockUs()) * time.Microsecond,
			Rate: l.GetResult().GetBytesPerSecond(), Unmeasured: l.GetResult().GetUnmeasured(),
		}, over, probed[l.GetFrom()].GetVersion() != "")
		out.Links = append(out.Links, x)
	}
	slices.SortStableFunc(out.Links, func(a, b doctor.Link) int { return strings.Compare(a.From, b.From) })
	out.Rows = append(out.Rows, rows...)
	out.Settle()
	return out
}

// nodeFound judges one node; probed is nil for one that takes no part in the probe.
func nodeFound(now time.Time, h *swarmv1.NodeHealth, probed *swarmv1.ProbeNode, over bool) doctor.Node {
	n := doctor.Node{Name: h.GetName(), Role: h.GetRole(), Version: probed.GetVersion(), NotAfter: stamp(h.GetSvidNotAfterUnixMs()), Status: doctor.OK}
	if left := ahead(now, h.GetSvidNotAfterUnixMs()); left != "" {
		n.Detail = "healthy; certificate for another " + left
	}
	switch {
	case h.GetLeftReason() != "":
		n.Status, n.Detail = doctor.Skipped, h.GetReason()
	case !h.GetHealthy():
		n.Status, n.Detail, n.Remedy = doctor.Failed, "not healthy: "+h.GetReason(), "swarmd health on its machine says more"
	case over && probed != nil && n.Version == "":
		n.Status, n.Detail = doctor.Failed, "it takes no part in the probe: "+cmp.Or(probed.GetProblem(), "it has sent no heartbeat that says what it found")
		n.Remedy = "look at its log; a release of swarmd that knows no probes must be upgraded"
	case len(h.GetWarnings()) > 0:
		n.Status, n.Detail, n.Remedy = doctor.Warning, strings.Join(h.GetWarnings(), "; "), "swarmctl get health"
	}
	return n
}

// redrawn is a table on a terminal that is drawn again over itself; elsewhere it is not drawn.
type redrawn struct {
	to    *Session
	lines int
}

func (r *redrawn) draw(found *doctor.Swarm) {
	if r.to.JSON || !r.to.Env.IsTerminal(r.to.Env.Stdout) {
		return
	}
	var b bytes.Buffer
	_ = found.Print(&b, coloured(r.to.Env))
	r.clear()
	r.lines = bytes.Count(b.Bytes(), []byte("\n"))
	_, _ = r.to.Env.Stdout.Write(b.Bytes()) // the last one's error counts
}

// clear takes away what was drawn.
func (r *redrawn) clear() {
	if r.lines > 0 {
		fmt.Fprintf(r.to.Env.Stdout, "\x1b[%dA\x1b[J", r.lines)
	}
	r.lines = 0
}
