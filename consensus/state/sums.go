package state

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
)

// sums are counted along with a state, so that no command has to look at all of it. They belong to the state's value and are
// not encoded: whoever decodes a state counts anew.
type sums struct {
	entries int            // encoded bytes of all nodes, contracts, bans and admissions with their keys
	size    int            // encoded bytes of the whole state
	ended   int            // sessions that have ended
	made    int            // contracts that nobody made by hand
	use     map[string]Use // by node name; nodes that use nothing are not in it
	room    int            // what the encoded state may hold instead of MaxStateBytes; 0: just that. For tests, and kept by Apply
}

func (s sums) equal(o sums) bool {
	return s.entries == o.entries && s.size == o.size && s.ended == o.ended && s.made == o.made && maps.Equal(s.use, o.use)
}

// Use is what the state holds on behalf of one node.
type Use struct {
	Open      int // sessions that have not ended
	Ended     int // sessions that have
	Contracts int // contracts that its sessions made, and nobody by hand
	Bytes     int // of its sessions and of layouts that it brought, as they are encoded
}

func (u Use) plus(o Use, sign int) Use {
	return Use{
		Open: u.Open + sign*o.Open, Ended: u.Ended + sign*o.Ended, Contracts: u.Contracts + sign*o.Contracts, Bytes: u.Bytes + sign*o.Bytes,
	}
}

// Size is the number of bytes of the encoded state.
func (s *State) Size() int { return s.sums.size }

// UseOf returns what the state holds on behalf of a node.
func (s *State) UseOf(node string) Use { return s.sums.use[node] }

// changes yields what stands under each key in two maps, if it is not the very same in both; nil: nothing.
func changes[T any](old, now map[string]*T) iter.Seq2[string, [2]*T] {
	return func(yield func(string, [2]*T) bool) {
		for key, n := range now {
			if o, was := old[key]; (!was || o != n) && !yield(key, [2]*T{o, n}) {
				return
			}
		}
		for key, o := range old {
			if _, kept := now[key]; !kept && !yield(key, [2]*T{o, nil}) {
				return
			}
		}
	}
}

// among is changes, but looks at these keys only.
func among[T any](keys map[string]bool, old, now map[string]*T) iter.Seq2[string, [2]*T] {
	return func(yield func(string, [2]*T) bool) {
		for key := range keys {
			o, was := old[key]
			n, is := now[key]
			if (was != is || o != n) && !yield(key, [2]*T{o, n}) {
				return
			}
		}
	}
}

// nodesSince and contractsSince yield what this state does not share with the one that it was made of.
func (s *State) nodesSince(old *State) iter.Seq2[string, [2]*Node] {
	if s.touched == nil {
		return changes(old.Nodes, s.Nodes)
	}
	return among(s.touched.nodes, old.Nodes, s.Nodes)
}

func (s *State) contractsSince(old *State) iter.Seq2[string, [2]*Contract] {
	if s.touched == nil {
		return changes(old.Contracts, s.Contracts)
	}
	return among(s.touched.contracts, old.Contracts, s.Contracts)
}

// count brings the sums up to date, from those of the state that this one was made of. It looks only at what is not shared
// with that one.
func (s *State) count(old *State) error {
	c := counter{sums: old.sums, delta: map[string]Use{}}
	replace(&c, s.nodesSince(old))
	replace(&c, changes(old.Bans, s.Bans))
	replace(&c, changes(old.Admitted, s.Admitted))
	for name, pair := range s.contractsSince(old) {
		c.contract(name, pair[0], -1)
		c.contract(name, pair[1], 1)
		c.sessions(pair)
	}
	c.weighTasks(old.Tasks, s.Tasks)
	if old.Rights != s.Rights {
		c.add(-1, entry("rights", old.Rights))
		c.add(1, entry("rights", s.Rights))
	}
	if c.err != nil {
		return c.err
	}
	rest := *s
	if s.Tasks != nil {
		rest.Tasks = s.Tasks.Bare()
	}
	rest.Nodes, rest.Contracts, rest.Bans, rest.Admitted = map[string]*Node{}, map[string]*Contract{}, nil, nil
	rest.Rights = nil
	base, err := seal(snapshotType, &rest)
	if err != nil {
		return err
	}
	c.size = len(base) + c.entries + commas(len(s.Nodes)) + commas(len(s.Contracts)) + commas(len(s.Bans)) + commas(len(s.Admitted)) + taskCommas(s.Tasks)
	if len(s.Bans) > 0 {
		c.size += len(`"bans":{},`)
	}
	if len(s.Admitted) > 0 {
		c.size += len(`"admitted":{},`)
	}
	if s.Rights != nil {
		c.size += len(",")
	}
	if len(c.delta) > 0 {
		c.use = maps.Clone(c.use)
		if c.use == nil {
			c.use = map[string]Use{}
		}
		for node, d := range c.delta {
			if c.use[node] = c.use[node].plus(d, 1); c.use[node] == (Use{}) {
				delete(c.use, node)
			}
		}
	}
	s.sums = c.sums
	return nil
}

// counter adds up what has changed.
type counter struct {
	sums
	delta map[string]Use // by node
	err   error
}

func (c *counter) add(sign int, e weight) {
	if c.entries += sign * e.bytes; e.err != nil {
		c.err = e.err
	}
}

// replace counts entries of a map that have changed: what was there no more, and what is there now.
func replace[T any](c *counter, pairs iter.Seq2[string, [2]*T]) {
	for key, pair := range pairs {
		c.add(-1, entry(key, pair[0]))
		c.add(1, entry(key, pair[1]))
	}
}

// contract counts a contract but for its sessions.
func (c *counter) contract(name string, x *Contract, sign int) {
	if x == nil {
		return
	}
	head := *x
	head.Sessions = map[string]*Session{}
	size := commas(len(x.Sessions))
	if x.Terms != nil {
		terms := *x.Terms
		terms.Layout = nil
		head.Terms = &terms
		size += layoutField(x.Terms.Layout)
		c.of(x.Terms.LayoutFrom, Use{Bytes: layoutField(x.Terms.Layout)}, sign)
	}
	if x.MadeBy != "" {
		c.made += sign
		c.of(x.MadeBy, Use{Contracts: 1}, sign)
	}
	c.add(sign, entry(name, &head).plus(size))
}

// sessions counts the sessions that a contract has gained, lost or changed.
func (c *counter) sessions(pair [2]*Contract) {
	var of [2]map[string]*Session
	for i, x := range pair {
		if x != nil {
			of[i] = x.Sessions
		}
	}
	for id, s := range changes(of[0], of[1]) {
		c.session(id, s[0], -1)
		c.session(id, s[1], 1)
	}
}

func (c *counter) session(id string, x *Session, sign int) {
	if x == nil {
		return
	}
	bare := *x
	bare.Terms.Layout = nil
	own, layout := entry(id, &bare), layoutField(x.Terms.Layout)
	c.add(sign, own.plus(layout))
	c.of(x.Terms.LayoutFrom, Use{Bytes: layout}, sign)
	use := Use{Open: 1, Bytes: own.bytes}
	if x.State == SessionEnded {
		use = Use{Ended: 1, Bytes: own.bytes}
		c.ended += sign
	}
	c.of(x.Node, use, sign)
}

// of counts what a node uses; what is nobody's is not counted.
func (c *counter) of(node string, use Use, sign int) {
	if node != "" {
		c.delta[node] = c.delta[node].plus(use, sign)
	}
}

// weight is how many bytes something takes in the encoded state.
type weight struct {
	bytes int
	err   error // it has no encoded form
}

func (w weight) plus(n int) weight { return weight{w.bytes + n, w.err} }

// entry weighs a key and its value; nil is not there.
func entry[T any](key string, v *T) weight {
	if v == nil {
		return weight{}
	}
	b, err := json.Marshal(v)
	return weight{encodedLen(key) + len(`"":`) + len(b), err}
}

// layoutField is what a layout adds to the encoded form of terms.
func layoutField(layout []byte) int {
	if len(layout) == 0 {
		return 0
	}
	return len(`"layout":"",`) + base64.StdEncoding.EncodedLen(len(layout))
}

// commas is how many commas stand between n entries.
func commas(n int) int { return max(0, n-1) }
