package local

import (
	"fmt"
	"io"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/report"
)

// Reasons of warnings that a local run gives itself, or acts on. docs/reference/warnings.md lists them with the swarm's.
const (
	reasonSameData = "SAME_DATA"
	reasonMinPeers = "MIN_PEERS"
)

// warnings are what shows before anything is started.
func (c *RunConfig) warnings() []report.Warning {
	apart := func(s string) bool { return expand(s, 0) != expand(s, 1) }
	if c.Peers < 2 || c.DataDir == "" || apart(c.DataDir) || slices.ContainsFunc(c.Env, apart) {
		return nil
	}
	return []report.Warning{{Reason: reasonSameData, Text: fmt.Sprintf("all %d peers have the same data, %s: give each its own, such as --data-dir "+
		"'shards/{peer}', or -e PEER={peer} to a program that divides them", c.Peers, c.DataDir)}}
}

// warned adds to them what the swarm found.
func (c *RunConfig) warned(status *swarmv1.GetContractStatusResponse) []report.Warning {
	all := append([]report.Warning{}, c.warnings()...)
	for _, w := range status.GetTrainingWarnings() {
		all = append(all, report.Warning{Reason: w.GetReason(), Peer: w.GetNode(), Text: w.GetText(), Advice: w.GetAdvice()})
	}
	return all
}

// unmet is the error of a run whose program wants more peers than there are; nil for any other.
func (c *RunConfig) unmet(status *swarmv1.GetContractStatusResponse) error {
	for _, w := range status.GetTrainingWarnings() {
		if w.GetReason() == reasonMinPeers {
			return exit.New(exit.Failed, "give more --peers, or have the program take its minPeers from the variable MIN_PEERS, which is --min-peers", "%s", w.GetText())
		}
	}
	return nil
}

// strictly is the error of a run that ended with warnings: nil if there were none but advice.
func strictly(s *report.Summary, strict bool) error {
	wrong := s.Wrong()
	if len(wrong) == 0 {
		return nil
	}
	lines := make([]string, len(wrong))
	for i, w := range wrong {
		lines[i] = "    " + w.Text
	}
	text := fmt.Sprintf("trained, with %s:\n%s", count(len(wrong)), strings.Join(lines, "\n"))
	if strict {
		return exit.New(exit.Failed, "without --strict this is exit code "+fmt.Sprint(exit.Warned), "%s", text)
	}
	return exit.New(exit.Warned, "docs/reference/warnings.md says more; --strict makes them errors", "%s", text)
}

func count(n int) string {
	if n == 1 {
		return "1 warning"
	}
	return fmt.Sprintf("%d warnings", n)
}

// printAdvice shows what could be better.
func printAdvice(w io.Writer, s *report.Summary) {
	for _, x := range s.Warnings {
		if x.Advice {
			fmt.Fprintf(w, "advice  %s\n", x.Text)
		}
	}
}
