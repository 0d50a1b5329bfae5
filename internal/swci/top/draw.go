package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The least terminal in which anything can be read.
const (
	leastWidth  = 20
	leastHeight = 4
)

// draw is the whole screen, with as many lines as the terminal has at most.
func (s *screen) draw() string {
	if s.width < leastWidth || s.height < leastHeight {
		return only(plain, "too small: q quits").render(max(s.width, 0), false)
	}
	body, head := s.body(), s.head()
	room := s.beneath(head)
	from := max(0, min(s.offset, len(body)-room))
	to := min(from+room, len(body))
	rows := append(head, body[from:to]...)
	for len(rows) < s.height-1 {
		rows = append(rows, nil)
	}
	rows = append(rows, s.foot(from, to, len(body)))
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = r.render(s.width, s.cfg.Color)
	}
	return strings.Join(lines, "\n")
}

// room is how many lines the body has.
func (s *screen) room() int { return s.beneath(s.head()) }

func (s *screen) beneath(head []row) int { return max(1, s.height-1-len(head)) }

// head says how the screen and the swarm stand.
func (s *screen) head() (rows []row) {
	now := s.cfg.Now()
	clock := only(soft, now.UTC().Format("15:04:05 UTC"))
	parts := []row{s.standing(now)}
	if w := s.known.swarm; w != nil {
		parts = append(parts, row{{"swarm ", soft}, {w.SwarmID[:min(12, len(w.SwarmID))], plain}})
		leader := row{{"leader ", soft}, {w.Leader, strong}}
		if w.Leader == "" {
			leader = only(warn, "no leader")
		}
		parts = append(parts, leader)
	}
	if s.contact.sn != "" {
		parts = append(parts, row{{"SN asked ", soft}, {s.contact.sn, plain}})
	}
	if w := s.known.swarm; w != nil && w.Context != "" {
		parts = append(parts, row{{"context ", soft}, {w.Context, plain}})
	}
	if w := s.known.swarm; w != nil && w.Epoch > 1 {
		parts = append(parts, row{{"epoch ", soft}, {strconv.FormatUint(w.Epoch, 10), plain}})
	}
	first := fitting(s.width-clock.width()-2, parts...)
	if gap := s.width - first.width() - clock.width(); gap >= 2 {
		first = append(append(first, word{strings.Repeat(" ", gap), plain}), clock...)
	}
	rows = append(rows, first)
	if s.contact.lost != "" {
		most := 1 + (s.height-leastHeight)/10
		rows = append(rows, folded("why    ", s.contact.lost, warn, s.width, most)...)
		if s.contact.remedy != "" && s.height >= 8 {
			rows = append(rows, folded("to do  ", s.contact.remedy, plain, s.width, most)...)
		}
	}
	return rows
}

// standing is whether what is shown is how the swarm is now.
func (s *screen) standing(now time.Time) row {
	since := rough(now.Sub(s.contact.since))
	switch {
	case !s.paused.IsZero():
		said := "PAUSED for " + rough(now.Sub(s.paused))
		if s.refused {
			said += ": p goes on, then tab"
		}
		return only(warn, said)
	case s.contact.lost != "":
		return only(bad, "STALE for "+since)
	case now.Sub(s.heard) > silence:
		return only(warn, "no answer for "+rough(now.Sub(s.heard)))
	case !s.answered():
		return only(busy, "asking…")
	}
	return only(good, "live for "+since)
}

// training draws the contract that is shown.
func (s *screen) training() *training {
	return &training{contract: s.contract, known: &s.known, reset: s.runs.before, stale: s.contact.lost != "", now: s.cfg.Now(), width: s.width, height: s.height, lacking: s.lacking}
}

// answered reports whether any question had an answer.
func (s *screen) answered() bool {
	for _, a := range s.asked {
		if a.err != "" {
			return true
		}
	}
	return s.known != known{}
}

// body is what can be scrolled.
func (s *screen) body() (rows []row) {
	if s.help {
		return helpRows()
	}
	rows = append(rows, s.summary()...)
	rows = append(rows, s.old()...)
	rows = append(rows, s.training().rows()...)
	rows = append(rows, s.nodeRows()...)
	return rows
}

// lacking says why a document can't be shown, if it can't.
func (s *screen) lacking(name, what string) (rows []row) {
	a := s.asked[name]
	if a == nil || a.err == "" {
		return nil
	}
	rows = folded(what+": ", a.err, warn, s.width, 2)
	if a.remedy != "" {
		rows = append(rows, folded("to do  ", a.remedy, plain, s.width, 2)...)
	}
	return rows
}

// old says which documents do not come although the swarm answers: what is shown of them was known before.
func (s *screen) old() []row {
	now := s.cfg.Now()
	if !s.paused.IsZero() || s.contact.lost != "" || now.Sub(s.heard) > silence {
		return nil // the first line says it of all
	}
	var each []string
	for _, name := range s.names() {
		a := s.asked[name]
		if a == nil || a.wanted.IsZero() || now.Sub(a.wanted) <= silence {
			continue
		}
		kind, _, _ := strings.Cut(name, "/")
		said := kind + " has not come for " + rough(now.Sub(a.wanted))
		if !a.came.IsZero() {
			said = kind + " was known " + rough(now.Sub(a.came)) + " ago"
		}
		each = append(each, said)
	}
	if each == nil {
		return nil
	}
	return folded("old    ", strings.Join(each, ", "), warn, s.width, 2)
}

// foot has the keys, and which lines of the body are shown.
func (s *screen) foot(from, to, all int) row {
	place := row(nil)
	if to-from < all {
		place = only(plain, fmt.Sprintf("lines %d–%d of %d", from+1, to, all))
	}
	contract := only(soft, "tab contract")
	if n := s.place(); n != "" {
		contract = only(soft, "tab contract "+n)
	}
	pause := "p pause"
	if !s.paused.IsZero() {
		pause = "p go on"
	}
	left := fitting(s.width-place.width()-2, only(soft, "q quit"), only(soft, "? help"), only(soft, "↑↓ scroll"), contract, only(soft, pause))
	if gap := s.width - left.width() - place.width(); place != nil && gap > 0 {
		left = append(append(left, word{strings.Repeat(" ", gap), plain}), place...)
	}
	return left
}

// place is which contract of how many is shown; empty if there is no other.
func (s *screen) place() string {
	if s.known.contracts == nil {
		return ""
	}
	all := s.known.contracts.Contracts
	for i, c := range all {
		if c.Name == s.contract && len(all) > 1 {
			return fmt.Sprintf("%d/%d", i+1, len(all))
		}
	}
	return ""
}

func helpRows() (rows []row) {
	for _, k := range [][2]string{
		{"q, Ctrl-C", "quit"},
		{"tab, →, ←", "show the next contract, or the one before"},
		{"↑, ↓", "scroll by a line; PgUp, PgDn, Home, End too"},
		{"p", "pause: nothing is asked, what is shown stays; again: go on"},
		{"?", "this page; again: back"},
		{"", ""},
		{"live, old", "the swarm answers, every 2 s; some documents do not come"},
		{"STALE", "no SN answers, or your identity expired: what is shown was known last"},
		{"● ! × ○", "well; not healthy or not known; dead or banned; left"},
		{"HEARD", "when a raft leader last heard of the node"},
		{"LINKS", "connections that stand, of those that the node needs"},
		{"TIME LEFT", "at the pace of the last rounds"},
		{"SENT, RECV", "by the peer in the last round that tells it"},
		{"", ""},
		{"", "Loss, metric, times and bytes are reported by nodes, and no proof."},
	} {
		rows = append(rows, row{{fmt.Sprintf("%-12s", k[0]), strong}, {k[1], plain}})
	}
	return rows
}
