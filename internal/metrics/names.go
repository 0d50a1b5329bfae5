package metrics

import (
	"maps"
	"sync"
)

// Other stands for all names beyond a bound.
const Other = "other"

// names are those that a label may take: those that came first, up to a bound.
type names struct {
	most int

	mu    sync.Mutex
	taken map[string]bool
}

func newNames(most int) *names { return &names{most: most, taken: map[string]bool{}} }

// label returns a name, or [Other] if there are too many.
func (n *names) label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.taken[name] {
		if len(n.taken) >= n.most {
			return Other
		}
		n.taken[name] = true
	}
	return name
}

// keep forgets the names of what is gone, which makes room for others.
func (n *names) keep(there func(name string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.taken, func(name string, _ bool) bool { return !there(name) })
}
