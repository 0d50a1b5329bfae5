package nodetest_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// lies has an SL report other digests of what these owners sent.
func lies(name string, owners ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Liars.LieAbout(name, owners...) }
}

func cheats(name string, receivers ...string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Liars.Cheat(name, receivers...) }
}

func accuses(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Liars.Accuse(name) }
}

func honest(name string) func(s *nodetest.Swarm) {
	return func(s *nodetest.Swarm) { s.Liars.Honest(name) }
}

// askedAgain is what is explained while a second attempt in a row has left different models.
var askedAgain = regexp.MustCompile(`each is asked what it got of whom.*\nhas reported .*\nthe attempt before failed`)

// leaved makes models of so many leaves that every participant owns some.
func leaved(c nodetest.Config) nodetest.Config {
	c.Elements = 300_000
	return c
}

// TestLiars: peers report what is not so, or send what they should not. What is decided from digests, and what can not be,
// stands in consensus/DESIGN.md.
func TestLiars(t *testing.T) {
	whole := []string{"sl-0", "sl-1", "sl-2", "sl-3"}
	named := exchange + gather + backoff + exchange // two attempts that fail in a row, and one that does not
	first := training(4, three...)
	runFaults(t, []fault{
		{
			name: "a peer reports a false digest", cfg: longer(leaved(fellows)), when: first, strike: lies("sl-2", "sl-0", "sl-1"),
			lasts: 10 * time.Second, mend: honest("sl-2"), within: think + named, with: three[:2],
			explain: 5 * time.Second, says: askedAgain, after: back("sl-2"),
		},
		{
			name: "a peer reports a false digest and all are needed", cfg: leaved(needed), when: first, strike: lies("sl-2", "sl-0", "sl-1"),
			lasts: 3 * time.Minute, mend: honest("sl-2"), blocks: true, within: backoff + 2*exchange, with: three,
			explain: 100 * time.Second, after: rounds(10),
		},
		{
			name: "an owner sends different bytes to two of three", cfg: longer(leaved(four)), when: training(4, whole...),
			strike: cheats("sl-3", "sl-0", "sl-1"), lasts: 10 * time.Second, mend: honest("sl-3"), within: think + named,
			with: three, all: whole, explain: 5 * time.Second, says: askedAgain, after: back("sl-3"),
		},
		{
			name: "an owner sends different bytes to one of two", cfg: longer(leaved(fellows)), when: first, strike: cheats("sl-0", "sl-1"),
			lasts: 10 * time.Second, mend: honest("sl-0"), within: think + named, with: three[1:],
			explain: 5 * time.Second, says: askedAgain, after: back("sl-0"),
		},
		{
			name: "an owner sends different bytes to one of three", cfg: longer(leaved(four)), when: training(4, whole...),
			strike: cheats("sl-0", "sl-1"), lasts: 10 * time.Second, mend: honest("sl-0"), within: think + named, with: whole[1:], all: whole,
			explain: 5 * time.Second, says: askedAgain, after: back("sl-0"),
		},
		{
			name: "an owner sends different bytes and all are needed", cfg: leaved(needed), when: first, strike: cheats("sl-0", "sl-1"),
			lasts: 3 * time.Minute, mend: honest("sl-0"), blocks: true, within: backoff + 2*exchange, with: three,
			explain: 100 * time.Second, after: rounds(10),
		},
		{
			// It gets rid of one, so that only those are left that are needed, and goes on: then the one comes back in its place.
			name: "one accuses one after the other, and two are needed", cfg: longer(leaved(fellows)), when: first, strike: accuses("sl-0"),
			lasts: 72 * time.Second, mend: honest("sl-0"), within: think + grace + 3*(backoff+exchange), with: three[1:],
			explain: 71500 * time.Millisecond, after: back("sl-0"),
		},
	})
}
