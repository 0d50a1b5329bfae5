package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

// tall is the height from which a screen has all lines of an explanation.
const tall = 36

// maxMetric bounds what the metric is called here, in bytes.
const maxMetric = 12

// maxLeft is the longest time left that means anything.
const maxLeft = 10 * 365 * 24 * time.Hour

// training draws the contract that is shown.
type training struct {
	contract      string // its name
	known         *known
	reset         uint64 // run that it had when it was reset while it was shown; 0: it was not
	stale         bool   // the swarm can't be asked
	now           time.Time
	width, height int
	lacking       func(document, what string) []row // why a document can't be shown
}

// rows are the contract that is shown.
func (c *training) rows() (out []row) {
	if c.contract == "" {
		if missing := c.lacking("contracts", "contracts"); missing != nil {
			return append([]row{nil}, missing...)
		}
		if c.known.contracts == nil {
			return nil
		}
		return append([]row{nil}, folded("", "There is no contract yet. A program that starts beside an SL makes one, or: swarmctl create contract NAME", plain, c.width, 3)...)
	}
	out = append(out, nil)
	st := c.known.status
	if st == nil {
		out = append(out, row{{"contract ", soft}, {c.contract, strong}})
		return append(out, c.lacking("contract/"+c.contract, "it can't be shown")...)
	}
	out = append(out, c.title(st)...)
	if c.reset > 0 {
		out = append(out, folded("reset  ", fmt.Sprintf("it began anew while you looked: this is run %d, that was run %d", st.Run, c.reset), warn, c.width, 2)...)
	}
	if q := st.NoQuorum; q != nil && c.known.nodes == nil {
		out = append(out, folded("no quorum: ", q.Message, bad, c.width, 2)...)
	}
	out = append(out, c.waits(st)...)
	out = append(out, c.progress(st))
	out = append(out, c.rounds()...)
	return append(out, c.peers(st)...)
}

// title says which contract it is, and where it stands; on two lines of a narrow screen.
func (c *training) title(st *Status) []row {
	phase := map[string]tone{"training": busy, "finalising": busy, "enrolling": busy, "paused": warn, "completed": good}[st.Phase]
	if st.Over {
		_, phase = howItEnded(st)
	}
	if st.Stuck {
		phase = warn
	}
	round := row{{"round ", soft}, {"none yet", plain}}
	if last := st.Committed; last != nil {
		round = row{{"round ", soft}, {fmt.Sprint(last.Round), strong}, {" " + since(last.Committed, c.now), soft}}
		if last.Final {
			round = append(row{{"final ", soft}}, round...)
		}
	}
	name, run := row{{"contract ", soft}, {st.Name, strong}}, row{{"run ", soft}, {fmt.Sprint(st.Run), plain}}
	words := []row{only(phase, st.Phase), round, run}
	if st.Method != "" {
		words = append(words, row{{"merged by ", soft}, {st.Method, plain}})
	}
	if st.MinPeers > 0 {
		words = append(words, row{{"minPeers ", soft}, {fmt.Sprint(st.MinPeers), plain}})
	}
	if name.width()+2+words[0].width()+2+round.width() > c.width {
		return []row{name, fitting(c.width, words...)}
	}
	return []row{fitting(c.width, append([]row{name}, words...)...)}
}

// howItEnded says how a training that is over has ended.
func howItEnded(st *Status) (said string, t tone) {
	switch {
	case st.Halt != nil && st.Halt.Ends:
		return "training is over: an operator has ended it", soft
	case !slices.ContainsFunc(st.Sessions, func(p Session) bool { return p.End == "finished" }):
		return "training is over, and no program has finished it", warn
	}
	return "training is over", good
}

// waits says what the contract waits for, and what to do about it.
func (c *training) waits(st *Status) (rows []row) {
	t := soft
	if st.Stuck {
		t = warn
	}
	switch e := c.known.explain; {
	case e != nil && c.height >= tall:
		for i, line := range e.Lines {
			if i == 0 { // the title says it
				continue
			}
			label := "       "
			if i == 1 {
				label = "now    "
			}
			if todo, ok := strings.CutPrefix(line, "to do: "); ok {
				rows = append(rows, folded("to do  ", todo, plain, c.width, 3)...)
				continue
			}
			rows = append(rows, folded(label, line, t, c.width, 3)...)
		}
		return rows
	case st.Waiting != "":
		rows = folded("now    ", st.Waiting, t, c.width, 2)
	case st.Over:
		said, t := howItEnded(st)
		rows = []row{{{"now    ", soft}, {said, t}}}
	default:
		rows = []row{{{"now    ", soft}, {"a round runs", busy}}}
	}
	if e := c.known.explain; e != nil {
		for _, line := range e.Lines {
			if todo, ok := strings.CutPrefix(line, "to do: "); ok && st.Stuck {
				rows = append(rows, folded("to do  ", todo, plain, c.width, 2)...)
			}
		}
		rows = append(rows, c.warnings(e)...)
	}
	return rows
}

// warnings are what is probably wrong with the training: the first ones, as there is little room.
func (c *training) warnings(e *Explain) (rows []row) {
	more := 0
	for _, w := range e.Warnings {
		switch {
		case w.Advice:
		case len(rows) < 2:
			rows = append(rows, folded("warns  ", w.Text, warn, c.width, 1)...)
		default:
			more++
		}
	}
	if more > 0 {
		rows = append(rows, folded("       ", fmt.Sprintf("and %d more; whole: swarmctl explain contract %s", more, c.contract), warn, c.width, 1)...)
	}
	return rows
}

// progress is how far the programs are, and how long they still need.
func (c *training) progress(st *Status) row {
	var share, known float64
	var left time.Duration
	var first *Session // the peer that is furthest
	for i := range st.Sessions {
		p := &st.Sessions[i]
		if p != c.session(p.Node) || !st.Over && (p.State == "ended" || !p.Live) {
			continue
		}
		if first == nil || p.ahead(first) {
			first = p
		}
		if p.Total > 0 {
			share, known = share+min(p.share(), 1), known+1
		}
		if l, ok := c.left(*p); ok {
			left = max(left, l)
		}
	}
	label := word{"epochs ", soft}
	if first == nil || first.Done == 0 && known == 0 {
		return row{label, {"none yet", plain}}
	}
	reached := fmt.Sprintf("%d of %d", first.Done, first.Total)
	if first.Total == 0 {
		reached = fmt.Sprintf("%d done, of how many is not known", first.Done)
	}
	if st.Over || known == 0 {
		return row{label, {reached, plain}}
	}
	share /= known
	words := []row{{label, {bar(share, max(8, min(c.width-48, 50))), busy}}, only(strong, fmt.Sprintf("%.0f %%", 100*share)), only(plain, reached)}
	if left > 0 {
		words = append(words, only(plain, "about "+rough(left)+" left"))
	}
	return fitting(c.width, words...)
}

// share is how much of its training a program has done; 0: that is not known.
func (p *Session) share() float64 {
	if p.Total == 0 {
		return 0
	}
	return float64(p.Done) / float64(p.Total)
}

// ahead reports whether a program is further than another.
func (p *Session) ahead(other *Session) bool {
	if p.share() != other.share() {
		return p.share() > other.share()
	}
	return p.Done > other.Done
}

// left is how long a program still needs.
func (c *training) left(p Session) (left time.Duration, ok bool) {
	if p.Left == nil || c.stale || *p.Left < 0 || *p.Left > maxLeft.Seconds() {
		return 0, false
	}
	return time.Duration(*p.Left * float64(time.Second)), true
}

// rounds are the curves, the last round, and what failed last.
func (c *training) rounds() (rows []row) {
	if missing := c.lacking("history/"+c.contract, "no curves"); missing != nil {
		return missing
	}
	h := c.known.history
	if h == nil || c.known.status.Run != h.Run {
		return nil
	}
	if len(h.Rounds) > 0 {
		var losses, metrics []float64
		for _, r := range h.Rounds {
			if r.Loss != nil {
				losses = append(losses, *r.Loss)
			}
			if r.Metric != nil {
				metrics = append(metrics, *r.Metric)
			}
		}
		name := c.metric()
		label := max(7, row{{name, soft}}.width()+1)
		rows = append(rows, c.drawn("loss", label, losses)...)
		rows = append(rows, c.drawn(name, label, metrics)...)
		last := h.Rounds[len(h.Rounds)-1]
		d := last.Durations
		rows = append(rows, fitting(c.width, row{{fmt.Sprintf("round %d:", last.Round), soft}}, phase("training", d.Training), phase("waiting", d.Waiting), phase("exchange", d.Exchange), phase("commit", d.Commit), phaseBytes(last.Sent)))
	}
	if f := c.failed(h); f != "" {
		rows = append(rows, folded("failed ", f, warn, c.width, 2)...)
	}
	return rows
}

func phase(name string, ms *uint64) row {
	if ms == nil {
		return nil
	}
	return row{{name + " ", soft}, {took(ms), plain}}
}

func phaseBytes(n *uint64) row {
	if n == nil {
		return nil
	}
	return row{{octets(n), plain}, {" sent", soft}}
}

// drawn is a curve with its first value and its last.
func (c *training) drawn(name string, label int, values []float64) []row {
	if len(values) == 0 {
		return nil
	}
	from, to := figure(&values[0]), figure(&values[len(values)-1])
	room := c.width - label - len(from) - len(to) - 2
	return []row{{{name + strings.Repeat(" ", max(0, label-row{{name, soft}}.width())), soft}, {from + " ", soft}, {curve(values, max(room, 1)), busy}, {" " + to, strong}}}
}

// failed says which attempt failed last, and why; empty for none.
func (c *training) failed(h *History) string {
	said, last := "", time.Time{}
	for _, r := range h.Rounds {
		for _, f := range r.Failed {
			at, _ := instant(f.At)
			if said != "" && at.Before(last) {
				continue
			}
			last = at
			said = fmt.Sprintf("round %d, attempt %d, %s: %s", r.Round, f.Attempt, since(f.At, c.now), f.Reason)
			if f.Blamed != "" && !strings.Contains(f.Reason, f.Blamed) {
				said += " (by " + f.Blamed + ")"
			}
		}
	}
	if k := c.known.status.Skips; k != nil && k.Count > 0 {
		if at, _ := instant(k.At); said == "" || !at.Before(last) {
			said = fmt.Sprintf("round %d was given up %s: %s", k.Round, since(k.At, c.now), k.Reason)
		}
	}
	return said
}

// session is a node's session of the contract that is shown; nil for none. Of several it is the last.
func (c *training) session(node string) (last *Session) {
	if c.known.status == nil {
		return nil
	}
	for i, p := range c.known.status.Sessions {
		if p.Node == node && (last == nil || last.State == "ended") {
			last = &c.known.status.Sessions[i]
		}
	}
	return last
}

// doing is what a peer does.
func doing(p Session) (string, tone) {
	switch {
	case p.State == "ended" && p.End == "finished":
		return p.End, good
	case p.State == "ended" && p.End == "left":
		return p.End, soft
	case p.State == "ended" && p.End != "":
		return p.End, bad
	case p.State == "ended":
		return p.State, bad
	case !p.Live:
		return "node is dead", bad
	case p.State == "closed":
		return "awaits final", good
	case p.Phase != "":
		return p.Phase, busy
	}
	return p.State, busy
}

// metric is what the metric is called, shortly.
func (c *training) metric() string {
	name := ""
	if st := c.known.status; st != nil {
		name = st.Metric
	}
	if h := c.known.history; h != nil && c.known.status != nil && h.Run == c.known.status.Run {
		for i := len(h.Rounds) - 1; i >= 0; i-- {
			if said := h.Rounds[i].Called; said != nil {
				name = *said
				break
			}
		}
	}
	if name = text.Clip(text.Line(name), maxMetric); name == "" {
		return "metric"
	}
	return name
}

// peers are the programs that take part, one for each node.
func (c *training) peers(st *Status) []row {
	if len(st.Sessions) == 0 {
		return folded("peers  ", "none yet: start the program beside each SL", plain, c.width, 2)
	}
	g := grid{columns: []column{
		{title: "PEER", worth: 10},
		{title: "DOES", worth: 9},
		{title: "ROUND", worth: 8, right: true},
		{title: "EPOCHS", worth: 6, right: true},
		{title: "TIME LEFT", worth: 3, right: true},
		{title: "LOSS", worth: 7, right: true},
		{title: strings.ToUpper(c.metric()), worth: 7, right: true},
		{title: "WEIGHT", worth: 5, right: true},
		{title: "SENT", worth: 4, right: true},
		{title: "RECV", worth: 3, right: true},
		{title: "ISOLATION", worth: 1},
	}}
	for i := range st.Sessions {
		p := &st.Sessions[i]
		if p != c.session(p.Node) {
			continue
		}
		does, t := doing(*p)
		epochs, left := quantity(p.Done), none
		if p.Total > 0 {
			epochs = fmt.Sprintf("%d/%d", p.Done, p.Total)
		}
		if l, ok := c.left(*p); ok {
			left = rough(l)
		}
		sent, received := c.bytes(p.Node)
		g.add(word{p.Node, plain}, word{does, t}, word{quantity(p.Round), plain}, word{epochs, plain}, word{left, plain}, word{figure(p.Loss), plain},
			word{figure(p.Metric), plain}, word{fmt.Sprint(p.Weight), plain}, word{octets(sent), plain}, word{octets(received), plain}, word{p.Isolation, soft})
	}
	return append([]row{nil}, g.rows(c.width)...)
}

// bytes are what a peer sent and received in the last round of which it is known.
func (c *training) bytes(node string) (sent, received *uint64) {
	h := c.known.history
	if h == nil || h.Run != c.known.status.Run {
		return nil, nil
	}
	return h.moved[node].Sent, h.moved[node].Received
}
