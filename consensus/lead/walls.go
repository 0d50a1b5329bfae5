package lead

import (
	"strings"

	"github.com/swarmd/swarmd/consensus/state"
)

// wallsOpen stands in a session's walls before what its SL opened.
const wallsOpen = "open:"

// toldWalls is what was said of one contract's sessions.
type toldWalls struct {
	seen *state.Contract // as it was looked at last: what did not change is not looked at again
	told map[string]bool // sessions whose open walls were logged
}

// tellWalls logs once for each session that its SL let the program out, on every SN, so that each organisation's log has it.
// Only Run calls it.
func (l *Leader) tellWalls(view *state.State) {
	for name := range l.walls {
		if view.Contracts[name] == nil {
			delete(l.walls, name)
		}
	}
	for name, c := range view.Contracts {
		old := l.walls[name]
		if old.seen == c {
			continue
		}
		now := toldWalls{seen: c, told: map[string]bool{}}
		for id, s := range c.Sessions {
			if !strings.Contains(s.Walls, wallsOpen) {
				continue
			}
			if !old.told[id] && s.State != state.SessionEnded {
				l.log.Warn("a peer's program is not walled in", "contract", name, "node", s.Node, "session", id, "walls", s.Walls)
			}
			now.told[id] = true
		}
		l.walls[name] = now
	}
}
