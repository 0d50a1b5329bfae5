package notices

import (
	"strings"

	"github.com/swarmd/swarmd/consensus/state"
)

// isolationOpen stands in a session's isolation before what its SL opened.
const isolationOpen = "open:"

// loggedIsolation is what was said of one contract's sessions.
type loggedIsolation struct {
	seen *state.Contract // as it was looked at last: what did not change is not looked at again
	told map[string]bool // sessions whose opened isolation was logged
}

// logIsolation logs once for each session that its SL let the program out.
func (n *Notices) logIsolation(view *state.State) {
	for name := range n.isolation {
		if view.Contracts[name] == nil {
			delete(n.isolation, name)
		}
	}
	for name, c := range view.Contracts {
		old := n.isolation[name]
		if old.seen == c {
			continue
		}
		now := loggedIsolation{seen: c, told: map[string]bool{}}
		for id, s := range c.Sessions {
			if !strings.Contains(s.Isolation, isolationOpen) {
				continue
			}
			if !old.told[id] && s.State != state.SessionEnded {
				n.log.Warn("a peer's program is not isolated", "contract", name, "node", s.Node, "session", id, "isolation", s.Isolation)
			}
			now.told[id] = true
		}
		n.isolation[name] = now
	}
}
