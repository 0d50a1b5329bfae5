// Package explain says in words for people why a contract waits: what the raft leader found, what each peer does, and what a user
// can do about it.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/internal/text"
)

// maxEnded bounds the lines about peers that have left.
const maxEnded = 8

// wrongBytes is what a user can do when digests do not fit together.
const wrongBytes = "one of the peers named above sends or reports wrong bytes: check its version, memory and disk, " +
	"or keep it out: swarmctl ban node NAME"

// openOne is what a user can do where two can't dial each other.
const openOne = "open one of the ports named above: of two peers one has to reach the other"

// Lines say why no round is planned or committed right now: how far the training is, what is waited for
// and until when, what each peer does, what failed last, and what a user can do. Times are relative to now, which is the
// reader's. What is probably wrong with the training comes before what a user can do. It is never empty.
func Lines(waiting planner.Waiting, now time.Time, warnings ...warning.Warning) []string {
	w := words{waiting}
	if w.Kind == "" {
		return []string{"the raft leader has not looked at this contract yet: ask again in a moment"}
	}
	lines := append(w.stand(now), w.halted(now)...)
	lines = append(lines, w.reason(now))
	if w.Kind != planner.WaitCompleted {
		lines = append(lines, w.outlook(now)...)
	}
	lines = append(lines, w.peers(now)...)
	if line := w.samples(); line != "" {
		lines = append(lines, line)
	}
	if w.Snapshot.Shardless {
		lines = append(lines, "all peers want to own no part of a merge (SL_MAKE_ME_ADMIN=False): each owns one all the same")
	}
	if s := w.Snapshot; len(s.Curbed) > 0 {
		lines = append(lines, fmt.Sprintf("longer waits are asked for than count, quorum wait %s and stall grace %s; for more set the contract's rules "+
			"--quorum-wait and --stall-grace, or start all SNs with more: %s", span(s.QuorumWait), span(s.StallGrace), text.Names(s.Curbed)))
	}
	for _, id := range w.Snapshot.Shared {
		lines = append(lines, "peers share the SPIFFE ID "+id+": each of them owns a part of the model, whoever runs them; give each node an entry of its own, on the SPIRE server's machine: swarmctl invite sl/NAME")
	}
	if w.Snapshot.Refusing != "" {
		lines = append(lines, "nothing is merged by both of those who refuse one another (--allow-peer, or a registration that is not proven): "+w.Snapshot.Refusing)
	}
	lines = append(lines, w.apart()...)
	if k := w.Snapshot.Skips; k.Count > 0 {
		lines = append(lines, fmt.Sprintf("rounds that were skipped in this run: %d, the last time round %d, %s: %s",
			k.Count, k.Round, ago(now, time.UnixMilli(k.AtMS)), k.Reason))
	}
	if last := w.lastFailure(); last != "" {
		lines = append(lines, last)
	}
	for _, x := range warnings {
		what := "warning: "
		if x.Advice {
			what = "advice: "
		}
		lines = append(lines, what+x.Text)
	}
	return append(lines, "to do: "+w.remedy())
}

// apart says which ports are shut between whom.
func (w words) apart() []string {
	var lines []string
	for _, a := range w.Snapshot.Apart {
		lines = append(lines, fmt.Sprintf("%s cannot open %s (TCP)%s: open it inbound at %s; check: swarmctl identity check %s",
			a.Node, a.Address, causes[a.Cause], a.Other, a.Address))
	}
	return lines
}

// causes say what came of dialling; a cause of a later release says nothing.
var causes = map[string]string{
	"refused": ", which refuses connections", "timeout": ", which does not answer", "unreachable": ", to which it has no route",
	"unresolved": ", whose name has no address there",
}

// maxShares bounds the peers whose shares of the samples are named.
const maxShares = 16

// samples says what peers weigh, where weights are numbers of samples.
func (w words) samples() string {
	list, all := w.Snapshot.Samples, uint64(0)
	for _, x := range list {
		all += uint64(x.Number)
	}
	if all == 0 {
		return ""
	}
	var parts []string
	for _, x := range list[:min(len(list), maxShares)] {
		parts = append(parts, fmt.Sprintf("%s %d (%.1f %%)", x.Node, x.Number, 100*float64(x.Number)/float64(all)))
	}
	if n := len(list) - maxShares; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return "peers weigh by their samples, as of the last round: " + strings.Join(parts, ", ")
}

// words are those for one reason.
type words struct{ planner.Waiting }

// stand says how far the training is.
func (w words) stand(now time.Time) []string {
	s := w.Snapshot
	head := fmt.Sprintf("contract %s, run %d, is %s", s.Contract, s.Run, w.Phase)
	switch {
	case w.Kind == planner.WaitCompleted:
		return []string{head + fmt.Sprintf(": round %d is the final model, committed %s", s.Round, ago(now, s.Committed))}
	case w.Kind == planner.WaitSessions && s.Round == 0:
	case s.Final:
		head += fmt.Sprintf(": round %d is due, the final one", s.Round+1)
	default:
		head += fmt.Sprintf(": round %d is due", s.Round+1)
	}
	if s.Round > 0 {
		return []string{head, fmt.Sprintf("round %d was committed %s", s.Round, ago(now, s.Committed))}
	}
	return []string{head}
}

// halted says that an operator ends the training, or has paused it and a last attempt still runs.
func (w words) halted(now time.Time) []string {
	h := w.Snapshot.Halt
	switch {
	case h == (planner.Halt{}) || w.Kind == planner.WaitPaused:
		return nil
	case h.Ends && w.Kind == planner.WaitCompleted:
		return []string{fmt.Sprintf("%s asked to end the training %s", h.By, ago(now, h.Since))}
	case h.Ends:
		return []string{fmt.Sprintf("%s ends the training, asked %s: the next round that is planned is the final one", h.By, ago(now, h.Since))}
	}
	return []string{h.String() + ": what runs ends, and nothing is planned after it"}
}

// reason says why the contract waits.
func (w words) reason(now time.Time) string {
	switch w.Kind {
	case planner.WaitSessions:
		return "no session is open: no program has joined the contract, or all have left it"
	case planner.WaitPeers:
		return fmt.Sprintf("waiting for %s: %d of %d (minPeers) are there, %s", text.MorePeers(w.Need-len(w.Have), ""), len(w.Have), w.Need, lasting(now, w.Since))
	case planner.WaitExpected:
		return fmt.Sprintf("minPeers are ready; the first round waits for %s: %d of %d are there, %s",
			text.MorePeers(w.Need-len(w.Have), "expected "), len(w.Have), w.Need, lasting(now, w.Since))
	case planner.WaitTraining:
		if w.Rule != "" {
			return fmt.Sprintf("%s; the round waits for %s, %s", w.Rule, text.Names(w.For), lasting(now, w.Since))
		}
		if len(w.Have) >= w.Need {
			return fmt.Sprintf("minPeers are ready; the round waits for %s, %s", text.Names(w.For), lasting(now, w.Since))
		}
		return fmt.Sprintf("waiting until %s ready: %d of %d (minPeers) are, %s", are(w.For), len(w.Have), w.Need, lasting(now, w.Since))
	case planner.WaitMerging:
		began := fmt.Sprintf("merging: attempt %d of round %d began %s", w.Attempt, w.Round, ago(now, w.Snapshot.Planned))
		if w.Asking {
			began += ", and its peers hold different models: each is asked what it got of whom, not answered yet: " + text.Names(w.For)
		}
		return began
	case planner.WaitRetry:
		return fmt.Sprintf("attempt %d of round %d failed: %s", w.Attempt, w.Round, w.Detail)
	case planner.WaitWeight:
		return fmt.Sprintf("all peers that are ready have weight 0: %s", text.Names(w.Have))
	case planner.WaitRequired, planner.WaitShare, planner.WaitCap, planner.WaitMethod, planner.WaitWitnesses:
		return fmt.Sprintf("a rule stands in the way, %s: %s", lasting(now, w.Since), w.Rule)
	case planner.WaitPaused:
		return w.Rule + ", " + lasting(now, w.Since) + ": no round is planned, and no timeout runs, until an operator resumes it"
	case planner.WaitModel, planner.WaitProof, planner.WaitOwners, planner.WaitRefusal, planner.WaitApart:
		return w.Rule + ", " + lasting(now, w.Since)
	case planner.WaitCommand:
		return fmt.Sprintf("nothing is in the way: the SNs commit %s, %s", w.Detail, lasting(now, w.Since))
	case planner.WaitCompleted:
		return "training is over: new sessions are refused until the contract is reset"
	}
	return w.String()
}

// outlook says what happens by itself, and when.
func (w words) outlook(now time.Time) []string {
	switch {
	case w.Until.IsZero():
		return nil
	case w.Kind == planner.WaitRetry:
		return []string{fmt.Sprintf("the next attempt begins %s", until(now, w.Until))}
	case w.Fails && w.Snapshot.Halt.Ends:
		return []string{fmt.Sprintf("if nothing changes all sessions fail %s, as an operator ends the training and there is no model", until(now, w.Until))}
	case w.Fails:
		return []string{fmt.Sprintf("if nothing changes all sessions fail %s (min-peers-timeout)", until(now, w.Until))}
	case w.Ends:
		return []string{fmt.Sprintf("if nothing changes training ends with the model of round %d %s", w.Snapshot.Round, until(now, w.Until))}
	}
	return []string{fmt.Sprintf("the round starts without %s %s", w.Them(), until(now, w.Until))}
}

// grouped returns the texts of peers with their names in the place of the first %, those with the same text in one line; of an empty text
// none.
func grouped(peers []planner.Peer, format func(planner.Peer) string) (lines []string) {
	groups, order := map[string][]string{}, []string{}
	for _, p := range peers {
		line := format(p)
		if line == "" {
			continue
		}
		if groups[line] == nil {
			order = append(order, line)
		}
		groups[line] = append(groups[line], p.Node)
	}
	for _, line := range order {
		lines = append(lines, strings.Replace(line, "%", text.Names(groups[line]), 1))
	}
	return lines
}

// peers says what each one does, those who do the same in one line.
func (w words) peers(now time.Time) []string {
	var lines []string
	add := func(does planner.Activity, format func(planner.Peer) string) {
		more := grouped(w.Snapshot.Peers, func(p planner.Peer) string {
			if p.Does != does {
				return ""
			}
			return format(p)
		})
		if does == planner.PeerEnded && len(more) > maxEnded {
			more = append(slices.Clone(more[:maxEnded]), fmt.Sprintf("left for other reasons (%d)", len(more)-maxEnded))
		}
		lines = append(lines, more...)
	}
	add(planner.PeerReady, func(planner.Peer) string { return "ready: %" })
	add(planner.PeerDone, func(planner.Peer) string { return "has reported its part of the merge: %" })
	add(planner.PeerMerging, func(p planner.Peer) string { return "has not reported yet, " + lasting(now, p.Since) + ": %" })
	add(planner.PeerFailed, func(p planner.Peer) string { return "failed " + ago(now, p.Since) + ": % (" + p.Reason + ")" })
	add(planner.PeerTraining, func(p planner.Peer) string { return "training, " + lasting(now, p.Since) + ": %" })
	add(planner.PeerSilent, func(p planner.Peer) string { return "not heard from, " + lasting(now, p.Since) + ": %" })
	add(planner.PeerFetching, func(planner.Peer) string { return "fetching the committed model: %" })
	add(planner.PeerUnheard, func(planner.Peer) string { return "alive, but the raft leader has not heard of its session yet: %" })
	add(planner.PeerDead, func(p planner.Peer) string { return "dead, " + lasting(now, p.Since) + ": %" })
	add(planner.PeerSitting, func(p planner.Peer) string {
		return fmt.Sprintf("sitting out until round %d, as attempts failed because of it: %%", p.Until)
	})
	add(planner.PeerStaying, func(planner.Peer) string { return "has not taken the final model yet: %" })
	add(planner.PeerEnded, func(p planner.Peer) string { return "has left: % (" + p.Reason + ")" })
	return append(lines, grouped(w.Snapshot.Peers, resting)...)
}

// resting says that what a peer left has counted, and counts no more.
func resting(p planner.Peer) string {
	switch {
	case p.Rounds == 0:
		return ""
	case p.Rounds > 1:
		return fmt.Sprintf("has finished, and its last weights, which are to count once, counted in %d rounds, as too few others did or a rule asked for it: %%", p.Rounds)
	case p.First == 0:
		return "has finished, and its last weights counted once: weight 0 since then: %"
	}
	return fmt.Sprintf("has finished, and its last weights counted once, in round %d: weight 0 since round %d: %%", p.First, p.First+1)
}

// lastFailure is why the attempt before failed, unless the reason says it already.
func (w words) lastFailure() string {
	why := w.Snapshot.LastFailed
	if why == "" || w.Kind == planner.WaitRetry && why == w.Detail || why == w.Snapshot.Skips.Reason {
		return ""
	}
	if w.Kind == planner.WaitCompleted || w.Kind == planner.WaitSessions {
		return "the end: " + why
	}
	return "the attempt before failed: " + why
}

// remedy is what a user can do.
func (w words) remedy() string {
	dead := w.nodes(planner.PeerDead)
	switch w.Kind {
	case planner.WaitModel:
		return "bring back " + text.Names(w.For) + " with what lies in its state directory, if what was learned since is not to be lost"
	case planner.WaitProof:
		if len(w.For) > 0 {
			return "start " + text.Names(w.For) + " with what lies in its state directory, or see whether it reaches an SN"
		}
		return "start the SLs that took part in the last rounds, with what lies in their state directories"
	case planner.WaitSessions:
		return "start SLs with a program of this contract"
	case planner.WaitPeers:
		if len(dead) > 0 {
			return "start " + text.Names(dead) + " again, or another SL with the same program"
		}
		return "start " + text.MorePeers(w.Need-len(w.Have), "") + " with the same program"
	case planner.WaitTraining:
		if silent := w.nodes(planner.PeerSilent); len(silent) > 0 {
			return "see whether " + text.Names(silent) + " still runs and reaches an SN"
		}
		if w.Until.IsZero() {
			return "nothing while the programs train; else look into the logs of " + text.Names(w.For)
		}
	case planner.WaitRetry:
		if planner.AboutDigests(w.Detail) {
			return wrongBytes
		}
		if len(w.Snapshot.Apart) > 0 {
			return openOne
		}
		return "check the network between " + text.Names(w.nodes(planner.PeerFailed)) + " and whom they name"
	case planner.WaitMerging:
		if w.Asking || planner.AboutDigests(w.Snapshot.LastFailed) {
			return "nothing while it goes on; if attempts keep failing " + wrongBytes
		}
		if len(w.Snapshot.Apart) > 0 {
			return openOne
		}
		if len(w.nodes(planner.PeerFailed)) > 0 || w.Attempt > 1 {
			return "nothing while it goes on; if attempts keep failing check the network between the peers named above"
		}
	case planner.WaitWeight:
		return "give at least one peer a nodeWeightage above 0"
	case planner.WaitRequired:
		return "start the nodes that are missing, or end all sessions and change the rules: swarmctl create contract " + w.Snapshot.Contract
	case planner.WaitApart:
		return openOne
	case planner.WaitRefusal:
		return "start the refused peers where --allow-peer of the others names them, or name them there; the logs of those who refuse say why"
	case planner.WaitShare, planner.WaitCap, planner.WaitMethod, planner.WaitWitnesses:
		return "start more peers, or end all sessions and change the rules: swarmctl create contract " + w.Snapshot.Contract
	case planner.WaitPaused:
		return "swarmctl resume contract " + w.Snapshot.Contract + " goes on; swarmctl end contract " + w.Snapshot.Contract + " holds a final round and ends the training"
	case planner.WaitOwners:
		return "start the nodes that are missing again"
	case planner.WaitCompleted:
		return "to train anew: swarmctl reset contract " + w.Snapshot.Contract
	}
	return "nothing, it goes on by itself"
}

func (w words) nodes(does planner.Activity) []string {
	var out []string
	for _, p := range w.Snapshot.Peers {
		if p.Does == does {
			out = append(out, p.Node)
		}
	}
	return out
}

func are(nodes []string) string {
	if len(nodes) == 1 {
		return nodes[0] + " is"
	}
	return text.Names(nodes) + " are"
}

// lasting is "for 12 s"; a time that is not known is "for a while".
func lasting(now, since time.Time) string {
	if since.IsZero() {
		return "for a while"
	}
	return "for " + span(now.Sub(since))
}

func ago(now, at time.Time) string {
	if at.IsZero() {
		return "some time ago"
	}
	return span(now.Sub(at)) + " ago"
}

// until is "in 18 s", or "now" when the moment has come.
func until(now, at time.Time) string {
	d := at.Sub(now)
	if d <= 0 {
		return "now"
	}
	if rest := d % time.Second; rest != 0 && d > time.Second {
		d += time.Second - rest // a wait is not over before it is
	}
	return "in " + span(d)
}

// span rounds a time to what a reader cares for.
func span(d time.Duration) string {
	switch d = max(0, d); {
	case d == 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}
