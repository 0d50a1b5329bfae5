package tasks

import (
	"fmt"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// Untrained warns of contracts that are completed and in which the programs of a RUN_SWARM task train, as far as the task says. Whoever took part
// in one gets its final model at once: the task succeeds, and nothing is trained. A program may choose its contract by itself, so this is no
// error. Empty: there is nothing to warn of.
func Untrained(t *Shown, contracts []*swarmv1.ContractSummary) (warnings []string) {
	if t.GetType() != runSwarm {
		return nil
	}
	words := wordsOf(t)
	among := func(c *swarmv1.ContractSummary) bool { return slices.Contains(words, c.GetName()) }
	if !slices.ContainsFunc(contracts, among) { // as programs do that name none
		among = func(c *swarmv1.ContractSummary) bool { return c.GetName() == wire.DefaultContract }
	}
	for _, c := range contracts {
		if c.GetPhase() == "completed" && among(c) {
			warnings = append(warnings, fmt.Sprintf("contract %s is completed: programs that train in it get its final model, and train nothing; begin anew with: swarmctl reset contract %s", c.GetName(), c.GetName()))
		}
	}
	return warnings
}

// wordsOf returns the words of a task's command and variables that may be names of contracts.
func wordsOf(t *Shown) (words []string) {
	body, err := taskfile.ReadBody(t.GetType(), t.Definition)
	b, ok := body.(taskfile.RunSwarm)
	if err != nil || !ok {
		return nil
	}
	says := []string{b.Entrypoint, b.Command}
	for _, v := range b.Env {
		says = append(says, v.Value)
	}
	apart := func(r rune) bool { return r > '~' || !naming.Alphanumeric(byte(r)) && !strings.ContainsRune("._-", r) }
	for _, s := range says {
		words = append(words, strings.FieldsFunc(s, apart)...)
	}
	return words
}
