package pairs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/reach/pairs"
)

func sl(name string, links ...*swarmv1.NodeLink) pairs.Node {
	return pairs.Node{Name: name, Role: "sl", Links: &swarmv1.NodeLinks{Contract: "c", Sn: "sn-0", Links: links}}
}

func sn(name string, links ...*swarmv1.NodeLink) pairs.Node {
	return pairs.Node{Name: name, Role: "sn", Links: &swarmv1.NodeLinks{Links: links}}
}

func shut(node string, linked bool) *swarmv1.NodeLink {
	return &swarmv1.NodeLink{Node: node, Linked: linked, Address: node + ".example:16000", Cause: "timeout", SinceSeconds: 150, LastSeconds: 5}
}

func untried(node string) *swarmv1.NodeLink { return &swarmv1.NodeLink{Node: node} }

// TestStates: what is known of a pair from what the two say.
func TestStates(t *testing.T) {
	silent := func(name, role string) pairs.Node { return pairs.Node{Name: name, Role: role} }
	elsewhere := sl("b")
	elsewhere.Links.Contract = "d"
	crowded := sl("b")
	crowded.Links.More = 1
	stranger := func(name string) *swarmv1.NodeLink {
		return &swarmv1.NodeLink{Node: name, Refused: true, Cause: "--allow-peer of this node does not name it"}
	}
	for _, tt := range []struct {
		name string
		a, b pairs.Node
		want pairs.State // empty: the two do not need each other
	}{
		{"SLs of one contract", sl("a"), sl("b"), pairs.Well},
		{"SLs of two contracts", sl("a"), elsewhere, ""},
		{"one dials", sl("a", shut("b", true)), sl("b"), pairs.OneWay},
		{"neither can dial any more", sl("a", shut("b", true)), sl("b", shut("a", true)), pairs.OneWay},
		{"neither dials", sl("a", shut("b", false)), sl("b", shut("a", false)), pairs.None},
		{"one is still trying", sl("a", shut("b", false)), sl("b", untried("a")), pairs.None},
		{"one has not seen that it is gone", sl("a", shut("b", false)), sl("b"), pairs.None},
		{"not tried yet", sl("a", untried("b")), sl("b", untried("a")), pairs.Unknown},
		{"one has just come", sl("a"), sl("b", untried("a")), pairs.Unknown},
		{"one tells nothing", sl("a"), silent("b", "sl"), ""},
		{"one tells nothing, and is not reached", sl("a", shut("b", false)), silent("b", "sl"), pairs.None},
		{"one tells too much", sl("a"), crowded, pairs.Well},
		{"one is shut out", sl("a", stranger("b")), sl("b", shut("a", false)), pairs.Refused},
		{"an SL and its SN", sl("a"), sn("sn-0"), pairs.Well},
		{"an SL and another SN", sl("a"), sn("sn-1"), ""},
		{"an SL and an SN that it does not reach", sl("a", shut("sn-1", false)), sn("sn-1"), pairs.None},
		{"an SN and its SL", sn("sn-0"), sl("a"), pairs.Well},
		{"SNs", sn("sn-0"), sn("sn-1"), pairs.Well},
		{"SNs that need nothing of each other", sn("sn-0", untried("sn-1")), sn("sn-1", untried("sn-0")), ""},
		{"SNs apart", sn("sn-0", shut("sn-1", false)), silent("sn-1", "sn"), pairs.None},
		{"SNs of which one dials", sn("sn-0", shut("sn-1", true)), sn("sn-1"), pairs.OneWay},
		{"SNs of which nothing is known", silent("sn-0", "sn"), silent("sn-1", "sn"), ""},
		{"a SWOP", sl("a"), silent("b", "swop"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := pairs.State("")
			if table := pairs.Tabulate([]pairs.Node{tt.a, tt.b}); len(table.Pairs) == 1 {
				got = table.Pairs[0].State
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// hospitals: b and c reach each other not at all, d cannot be dialled by a, and e has come just now.
func hospitals() []pairs.Node {
	return []pairs.Node{
		sl("hospital-a", shut("hospital-d", true), untried("hospital-e")),
		sl("hospital-b", shut("hospital-c", false), untried("hospital-e")),
		sl("hospital-c", shut("hospital-b", false), untried("hospital-e")),
		sl("hospital-d", untried("hospital-e"), shut("sn-1", false)),
		sl("hospital-e", untried("hospital-a"), untried("hospital-b"), untried("hospital-c"), untried("hospital-d")),
		sn("sn-0"), sn("sn-1"), sn("sn-2", untried("sn-1")),
	}
}

// TestPrint is read aloud.
func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if err := pairs.Tabulate(hospitals()).Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `
connections: 12 of 18 that nodes need stand
                 1   2   3   4   5   6   7   8
 1  hospital-a      ok  ok  in   ?  ok   .   .
 2  hospital-b  ok      NO  ok   ?  ok   .   .
 3  hospital-c  ok  NO      ok   ?  ok   .   .
 4  hospital-d  ok  ok  ok       ?  ok  NO   .
 5  hospital-e   ?   ?   ?   ?      ok   .   .
 6  sn-0        ok  ok  ok  ok  ok      ok  ok
 7  sn-1         .   .   .  NO   .  ok       .
 8  sn-2         .   .   .   .   .  ok   .
    from the row to the column: ok it stands; in it stands, but the row could not open another; NO none; ? not known yet; . not needed
none: hospital-b and hospital-c
  hospital-b cannot open hospital-c.example:16000 (TCP), which does not answer, for 2 minutes
  hospital-c cannot open hospital-b.example:16000 (TCP), which does not answer, for 2 minutes
  -> let TCP from the host of hospital-b to hospital-c.example:16000 (hospital-c) through every firewall, or the other way to hospital-b.example:16000; one of the two is enough; check on the host of hospital-b: swarmctl identity check hospital-c.example:16000
none: hospital-d and sn-1
  hospital-d cannot open sn-1.example:16000 (TCP), which does not answer, for 2 minutes
  -> let TCP from the host of hospital-d to sn-1.example:16000 (sn-1) through every firewall; check on the host of hospital-d: swarmctl identity check sn-1.example:16000
one way: hospital-a and hospital-d
  hospital-a could not open hospital-d.example:16000 (TCP), which does not answer (its first try was 2 minutes ago, its last 5 seconds ago)
  a connection stands and carries both
  -> when the connection breaks, the pair needs one side that can dial, and whether hospital-d can is not known: open hospital-d.example:16000 (TCP) inbound at hospital-d; check on the host of hospital-a: swarmctl identity check hospital-d.example:16000
not known yet: hospital-a and hospital-e, hospital-b and hospital-e, hospital-c and hospital-e, 1 more pairs
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestOldConnection: who opened the connection that stands, nobody tells, so nobody is said to have, and nobody to be able to open the next one.
func TestOldConnection(t *testing.T) {
	unnamed := shut("b", true)
	unnamed.Cause = "its name is not known"
	last := shut("b", true)
	last.SinceSeconds = last.LastSeconds
	const needs, check = "when the connection breaks, the pair needs one side that can dial", "; check on the host of a: swarmctl identity check b.example:16000"
	for _, tt := range []struct {
		name           string
		a, b           pairs.Node
		dials, details string
		remedy         string
	}{
		{
			"one has failed", sl("a", last), sl("b"), "b",
			"a could not open b.example:16000 (TCP), which does not answer (its last try was 5 seconds ago); a connection stands and carries both",
			needs + ", and whether b can is not known: open b.example:16000 (TCP) inbound at b" + check,
		},
		{
			"both have failed", sl("a", shut("b", true)), sl("b", shut("a", true)), "",
			"a could not open b.example:16000 (TCP), which does not answer (its first try was 2 minutes ago, its last 5 seconds ago); " +
				"b could not open a.example:16000 (TCP), which does not answer (its first try was 2 minutes ago, its last 5 seconds ago); a connection stands and carries both",
			needs + ": open b.example:16000 (TCP) inbound at b" + check,
		},
		{
			"no firewall", sl("a", unnamed), sl("b"), "b",
			"a could not open b.example:16000 (TCP): its name is not known (its first try was 2 minutes ago, its last 5 seconds ago); a connection stands and carries both",
			needs + ", and whether b can is not known" + check,
		},
	} {
		p := pairs.Tabulate([]pairs.Node{tt.a, tt.b}).Pairs[0]
		if d := cmp.Diff([]string{tt.dials, tt.details, tt.remedy}, []string{p.Dials(), strings.Join(p.Details(), "; "), p.Remedy()}); d != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, d)
		}
	}
}

// TestCount: a cell of a table that a user understands at 3 a.m.
func TestCount(t *testing.T) {
	table := pairs.Tabulate(hospitals())
	for name, want := range map[string]string{
		"hospital-a": "4/5 (1 not known yet)", "hospital-b": "3/5 (not hospital-c; 1 not known yet)", "hospital-d": "4/6 (not sn-1; 1 not known yet)",
		"sn-0": "7/7", "nobody": "",
	} {
		if got := table.Count(name).String(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := (pairs.Count{Needs: 9, Has: 4, Apart: []string{"a", "b", "c", "d", "e"}}).String(); got != "4/9 (not a, b, c and 2 more)" {
		t.Error(got)
	}
}

// TestLinked: groups, without the pairs that are not well, are the pairs that are well, and a large swarm needs few words for them.
func TestLinked(t *testing.T) {
	var large []pairs.Node
	for i := range 97 {
		large = append(large, sl(fmt.Sprintf("hospital-%02d", i)))
	}
	large[7].Links.Links = append(large[7].Links.Links, shut("hospital-08", false), untried("hospital-09"), shut("hospital-10", true))
	elsewhere, alone, idle := sl("x"), sl("y"), sl("z")
	elsewhere.Links.Contract, alone.Links.Contract, idle.Links.Contract = "d", "e", ""
	for _, nodes := range [][]pairs.Node{nil, hospitals(), append(large, sn("sn-0"), sn("sn-1"), sn("sn-2"), elsewhere, alone, idle)} {
		table := pairs.Tabulate(nodes)
		of := func(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }
		want, got, words := map[[2]string]bool{}, map[[2]string]bool{}, 0
		for _, p := range table.Pairs {
			if p.State == pairs.Well {
				want[of(p.A, p.B)] = true
			}
		}
		for _, group := range table.Linked() {
			for i, a := range group {
				words += len(a)
				for _, b := range group[i+1:] {
					got[of(a, b)] = true
				}
			}
		}
		for _, p := range table.NotWell() {
			delete(got, of(p.A, p.B))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d nodes: -want +got\n%s", len(nodes), d)
		}
		if words > 4<<10 {
			t.Errorf("%d bytes of names for %d pairs", words, len(want))
		}
	}
}

// TestLargeSwarmShowsOnlyWhatIsNotWell: of a hundred nodes no matrix is drawn, what is well costs nothing, and the list ends.
func TestLargeSwarmShowsOnlyWhatIsNotWell(t *testing.T) {
	var nodes []pairs.Node
	for i := range 100 {
		nodes = append(nodes, sl(fmt.Sprintf("hospital-%02d", i)))
	}
	if n := proto.Size(nodes[0].Links); n > 20 {
		t.Errorf("%d bytes where all is well", n)
	}
	for i := range 50 {
		nodes[0].Links.Links = append(nodes[0].Links.Links, shut(fmt.Sprintf("hospital-%02d", 1+i), false))
	}
	var out bytes.Buffer
	if err := pairs.Tabulate(nodes).Print(&out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); lines[1] != "connections: 4900 of 4950 that nodes need stand" || strings.Contains(out.String(), "from the row") ||
		!strings.Contains(out.String(), "and 10 more pairs: -o json has all\n") || len(lines) > 130 {
		t.Errorf("%s", out.String())
	}
}

// TestBounded: however much a node says, and whatever, it is bounded, and what does not stand is said first.
func TestBounded(t *testing.T) {
	in := &swarmv1.NodeLinks{Contract: "c\x1b[2J", More: 3}
	for i := range 300 {
		in.Links = append(in.Links, shut(fmt.Sprintf("well-%03d", i), true))
	}
	bad := shut("apart", false)
	bad.Cause = strings.Repeat("x\n", 4000)
	in.Links = append(in.Links, bad)
	out := pairs.Bound(in)
	if n := proto.Size(out); n > pairs.MaxBytes {
		t.Errorf("%d bytes", n)
	}
	if out.GetLinks()[0].GetNode() != "apart" || len(out.GetLinks()[0].GetCause()) > 200 || strings.ContainsAny(out.GetLinks()[0].GetCause()+out.GetContract(), "\n\x1b") {
		t.Errorf("the first is %v", out.GetLinks()[0])
	}
	if int(out.GetMore())+len(out.GetLinks()) != 301 || len(in.GetLinks()) != 301 {
		t.Errorf("%d told and %d more, of %d", len(out.GetLinks()), out.GetMore(), len(in.GetLinks()))
	}
	if pairs.Bound(nil) != nil || pairs.Aged(nil, 0) != nil {
		t.Error("who says nothing says something")
	}
	if again := pairs.Bound(out); !proto.Equal(out, again) {
		t.Error("what is bounded is bounded again")
	}
	if old := pairs.Aged(out, time.Minute); old.GetLinks()[0].GetSinceSeconds() != 210 || out.GetLinks()[0].GetSinceSeconds() != 150 {
		t.Errorf("a minute later: %v", old.GetLinks()[0])
	}
}

func TestShutPorts(t *testing.T) {
	in := &swarmv1.NodeLinks{Links: []*swarmv1.NodeLink{shut("b", false), shut("c", true), untried("d"), {Node: "e", Refused: true, Cause: "its owner says no"}}}
	want := []string{
		"cannot open b.example:16000 (TCP), which does not answer, and there is no connection with b; check: swarmctl identity check b.example:16000",
		"cannot open c.example:16000 (TCP), which does not answer; a connection with c stands and carries both; when it breaks, one of the two has to dial",
	}
	if d := cmp.Diff(want, pairs.ShutPorts(in)); d != "" {
		t.Error(d)
	}
	for range 4 {
		in.Links = append(in.Links, shut("x", false))
	}
	if got := pairs.ShutPorts(in); len(got) != 5 || !strings.Contains(got[4], "get health") {
		t.Errorf("%q", got)
	}
}

// FuzzTabulate: whatever nodes say, the table can be made and printed, and each of its lines is one line.
func FuzzTabulate(f *testing.F) {
	raw, err := proto.Marshal(hospitals()[3].Links)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, []byte{})
	f.Add([]byte{0x1a, 0x04, 0x0a, 0x02, 's', 'n'}, raw)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var one, two swarmv1.NodeLinks
		if proto.Unmarshal(a, &one) != nil || proto.Unmarshal(b, &two) != nil {
			return
		}
		table := pairs.Tabulate([]pairs.Node{
			{Name: "a", Role: "sl", Links: pairs.Bound(&one)}, {Name: "b", Role: "sl", Links: pairs.Bound(&two)}, sn("sn"),
		})
		var out bytes.Buffer
		if err := table.Print(&out); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\r") || strings.Count(out.String(), "\n") > 20 {
			t.Errorf("%q", out.String())
		}
		for _, n := range table.Nodes {
			if c := table.Count(n.Name); c.Has+c.Unknown+len(c.Apart) != c.Needs {
				t.Errorf("%+v", c)
			}
		}
	})
}
