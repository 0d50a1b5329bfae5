package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// Title names the run in plain words.
func (s *Summary) Title() string {
	if s.Project == "" {
		return cmp.Or(s.Program, "training")
	}
	return s.Project + ": " + s.Program
}

// headline says in a sentence or two what came out.
func (s *Summary) headline() string {
	var said []string
	peers := fmt.Sprintf("%d %s", len(s.Peers), plural(len(s.Peers), "peer"))
	rounds := fmt.Sprintf("%d %s", s.Rounds, plural(s.Rounds, "round"))
	took := fmt.Sprintf("%s and %s", seconds(s.WallSeconds), rounds)
	switch s.State {
	case Interrupted:
		said = append(said, fmt.Sprintf("This run was interrupted after %s: it shows what there was by then.", took))
	case Failed:
		said = append(said, fmt.Sprintf("This run failed after %s: it shows what there was by then.", took))
	default:
		if n := s.failed(); n > 0 {
			peers = fmt.Sprintf("%d of %s", len(s.Peers)-n, peers)
		}
		said = append(said, fmt.Sprintf("%s trained one model together in %s.", peers, rounds))
	}
	swarm := between(s.Peers, func(p Peer) *float64 {
		if p.Failed {
			return nil // it is that of an earlier model
		}
		return p.SwarmAccuracy
	})
	alone := between(s.Peers, func(p Peer) *float64 { return p.LocalAccuracy })
	switch {
	case swarm != "" && alone != "":
		said = append(said, fmt.Sprintf("%s of the merged model: %s; of what each peer trained alone: %s.", cmp.Or(s.Metric, "Accuracy"), swarm, alone))
	case swarm != "":
		said = append(said, fmt.Sprintf("%s of the merged model: %s.", cmp.Or(s.Metric, "Accuracy"), swarm))
	}
	return strings.Join(said, " ")
}

// failed counts the peers whose program failed.
func (s *Summary) failed() (n int) {
	for _, p := range s.Peers {
		if p.Failed {
			n++
		}
	}
	return n
}

// between renders the range of a value over the peers, "" if none has it.
func between(peers []Peer, value func(Peer) *float64) string {
	var all []float64
	for _, p := range peers {
		if v := value(p); v != nil {
			all = append(all, *v)
		}
	}
	if len(all) == 0 {
		return ""
	}
	low, high := slices.Min(all), slices.Max(all)
	if Number(&low) == Number(&high) {
		return Number(&low)
	}
	return Number(&low) + " to " + Number(&high)
}

// Fact is one line of how a run was made.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Code  bool   `json:"code"` // a digest or another word of machines
}

// lastModel names the newest merged model of a run that came to no final one.
func (p *Page) lastModel() []Fact {
	n := len(p.Rounds)
	if p.Summary.State == Finished || n == 0 || p.Rounds[n-1].Digest == "" {
		return nil
	}
	last := p.Rounds[n-1]
	return []Fact{{fmt.Sprintf("merged model of round %d (BLAKE3, as in logs and the ledger)", last.Round), last.Digest, true}}
}

// facts are what one who would repeat the run, or vouch for it, has to know. What is not known is left out.
func (s *Summary) facts() []Fact {
	out := []Fact{}
	add := func(name, value string, code bool) {
		if value != "" {
			out = append(out, Fact{name, value, code})
		}
	}
	add("program", s.Program, false)
	add("program, SHA-256", s.ProgramSHA256, true)
	if digest := s.one(func(p Peer) *string { return p.ModelDigest }); digest != "" {
		add("final model (BLAKE3, as in logs and the ledger)", digest, true)
	} else {
		add("final model's parameters, SHA-256", s.one(func(p Peer) *string { return p.ModelSHA256 }), true)
	}
	add("started", when(s.Started), false)
	add("ended", when(s.Ended), false)
	add("merge method", s.Method, true)
	if n := cmp.Or(s.ContractMinPeers, s.MinPeers); n > 0 {
		add("least number of peers of a round (minPeers)", fmt.Sprint(n), false)
	}
	if s.SyncFrequency > 0 {
		add("batches between merges (syncFrequency)", fmt.Sprint(s.SyncFrequency), false)
	}
	if s.SNs > 0 {
		add("SN nodes", fmt.Sprint(s.SNs), false)
	}
	add("what keeps the programs in", s.isolation(), false)
	if s.Contract != wire.DefaultContract {
		add("training contract", s.Contract, false)
	}
	add("host", s.Host, false)
	add("versions", s.versions(), false)
	return out
}

// isolation is what all peers say of theirs, or the runtime.
func (s *Summary) isolation() string {
	for _, p := range s.Peers {
		if p.Isolation != s.Peers[0].Isolation {
			return s.Runtime
		}
	}
	if len(s.Peers) > 0 && s.Peers[0].Isolation != "" {
		return s.Peers[0].Isolation
	}
	return s.Runtime
}

// one is what all peers that have it have alike, "" if they differ.
func (s *Summary) one(value func(Peer) *string) string {
	found := ""
	for _, p := range s.Peers {
		v := value(p)
		if v == nil || p.Failed {
			continue
		}
		if found != "" && *v != found {
			return ""
		}
		found = *v
	}
	return found
}

// versions lists swarmd's first and then the others by name.
func (s *Summary) versions() string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Versions)), func(name string) bool { return name == "swarmd" })
	if s.Versions["swarmd"] != "" {
		names = append([]string{"swarmd"}, names...)
	}
	for i, name := range names {
		names[i] += " " + s.Versions[name]
	}
	return strings.Join(names, ", ")
}

// seconds renders a time for people.
func seconds(f float64) string {
	if f < 120 {
		return fmt.Sprintf("%.1f s", f)
	}
	return (time.Duration(f) * time.Second).String()
}

// plural is "1 round" or "2 rounds" without the number.
func plural(n any, word string) string {
	if fmt.Sprint(n) == "1" {
		return word
	}
	return word + "s"
}

// when renders an RFC 3339 time for people; another text stays as it is.
func when(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return stamp
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}
