package swci

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/reach/pairs"
	"github.com/swarmd/swarmd/internal/text"
)

func nodeCommands() []*Command {
	return []*Command{
		{
			Pattern: "list nodes", Group: "Nodes", Shell: true,
			Summary: "Show the nodes of the swarm",
			Details: "Prints every registered node, sorted by role and name: where others reach it (an SN's API, the file server of the rest), whether it is alive, banned, dead or has left (a node leaves when its work is done or it is stopped) and since when (unknown while the SNs have no quorum), and which SN is the Sentinel and which leads. REACH says with how many of the others that it needs a node has a connection, and with which it has none: `get health` says why. The note of an SL says how many ranks its program has, if hosts run some of them, and whether the SN at which it registered reaches its port. Then follow banned node keys without a node, SNs that wait to be admitted, each with the command that does it, and SNs that were invited and have not joined.",
			Example: "list nodes",
			JSON:    nodesJSON{},
			Run:     listNodes,
		},
		{
			Pattern: "forget node NAME", Group: "Nodes", Shell: true,
			Summary: "Remove a dead node, and free its name",
			Details: "Removes a dead node from the swarm, so that another machine may take its name: a name belongs to the node key that registered it first. Refused while the node is alive. An SN leaves the raft group too, which is refused if the others would be no majority; its admission goes with it, also that of one which has not joined, and an invitation that nobody has used.",
			Example: "forget node sl-2",
			JSON:    forgottenJSON{},
			Run:     forgetNode,
		},
	}
}

// nodesJSON is `list nodes -o json`.
type nodesJSON struct {
	Nodes []nodeJSON `json:"nodes" doc:"by role and name"`
	Bans  []banJSON  `json:"bans" doc:"all banned node keys, by name"`

	NoQuorum *noQuorumJSON `json:"no_quorum" doc:"null, or that too few SNs answer the one that was asked; exit code 7 then"`

	Candidates []candidateJSON `json:"candidates" doc:"SNs that wait for an operator to admit them, and those that were admitted and have not joined, by name"`
	Invited    []invitedJSON   `json:"invited" doc:"SNs whose invitations nobody has used yet, by name"`

	rows [][]string // as the original has them
}

func (n nodesJSON) words(l *lines) {
	for _, row := range n.rows {
		l.row(row)
	}
}

// forgottenJSON is `forget node NAME -o json`.
type forgottenJSON struct {
	Name string `json:"name" doc:"the node's; it is free now"`
}

// nodeJSON is one element of `list nodes -o json`.
type nodeJSON struct {
	Name        string   `json:"name" doc:"the node's, unique in the swarm"`
	Role        string   `json:"role" doc:"sn, sl or swop"`
	Host        string   `json:"host" doc:"advertised address or host name"`
	P2PPort     uint32   `json:"p2p_port" doc:"of an SN, else 0"`
	APIPort     uint32   `json:"api_port" doc:"of an SN, else 0"`
	FSPort      uint32   `json:"fs_port" doc:"of the file server"`
	Banned      bool     `json:"banned" doc:"its node key is shut out"`
	State       string   `json:"state" doc:"alive, dead, left or banned; without a quorum unknown, or of an SN no answer"`
	Live        bool     `json:"live" doc:"it is heard of; false where that is not known"`
	LiveSince   *string  `json:"live_since" doc:"when live last changed; RFC 3339, UTC"`
	LeftReason  string   `json:"left_reason" doc:"why it left, empty unless it did: that it is not live is no fault then"`
	Sentinel    bool     `json:"sentinel" doc:"the SN that founded the swarm"`
	Leader      bool     `json:"leader" doc:"the raft leader now"`
	Runtime     string   `json:"runtime" doc:"how an SL runs its program: process or docker"`
	Reached     string   `json:"reached_by_sn" doc:"what came of the SN's dial to the node's port after it registered: yes, no: with the cause, other key if another node answers there, not tried: with the cause, if the SN does not dial it or not yet; empty: not checked, as for SNs and after an election"`
	Version     string   `json:"version" doc:"that it says it runs, with the commit; empty: it registered before versions were told"`
	SpiffeID    string   `json:"spiffe_id" doc:"of its SVID"`
	PeerID      string   `json:"peer_id" doc:"libp2p peer ID of its node key"`
	Needs       int      `json:"needs" doc:"others that it needs a connection with, as far as is known; get health says more"`
	Reaches     int      `json:"reaches" doc:"those of them with which one stands"`
	Taskrunner  string   `json:"taskrunner" doc:"whose tasks a SWOP takes; empty: it takes none"`
	Peers       uint32   `json:"peers" doc:"for how many peers a SWOP counts in a RUN_SWARM task, else 0"`
	CPUs        uint32   `json:"cpus" doc:"that a SWOP's host has, as it says; 0: not known"`
	MemoryBytes uint64   `json:"memory_bytes" doc:"the same; 0: not known"`
	GPUs        uint32   `json:"gpus" doc:"the same"`
	DiskBytes   uint64   `json:"disk_bytes" doc:"that was free for members of jobs when a SWOP registered; 0: not known"`
	Labels      []string `json:"labels" doc:"KEY=VALUE that a SWOP's host was given, sorted"`
	Ranks       uint32   `json:"ranks" doc:"of an SL that runs rank 0 of its program itself, while hosts run the others: how many there are; else 0"`
	Use         useJSON  `json:"use" doc:"what the SNs hold on its behalf; docs/reference/limits.md has the limits"`
}

// useJSON is the quotas' part of `list nodes -o json`.
type useJSON struct {
	OpenSessions  uint32 `json:"open_sessions" doc:"sessions that have not ended"`
	EndedSessions uint32 `json:"ended_sessions" doc:"ended sessions that are kept"`
	Contracts     uint32 `json:"contracts" doc:"contracts that its sessions made, and nobody by hand"`
	Bytes         uint64 `json:"bytes" doc:"of its sessions and of layouts that it brought, as they are encoded"`
}

func listNodes(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		list, err := api.ListNodes(ctx)
		if err == nil {
			out := nodesToJSON(list)
			out.rows = nodeRows(list.GetNodes(), s.Env.Now())
			err = s.show(out, func() error { return printNodes(s, list) })
		}
		if err == nil {
			err = s.shown(list.GetNoQuorum())
		}
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		return nil
	})
}

func printNodes(s *Session, list *swarmv1.ListNodesResponse) error {
	t := table{header: []string{"NAME", "ROLE", "ADDRESS", "STATE", "FOR", "REACH", "VERSION", "NOTE"}}
	reach := nodePairs(list.GetNodes())
	for _, n := range list.GetNodes() {
		state, since := nodeState(n, list.GetNoQuorum())
		t.add(n.GetName(), n.GetRole(), nodeAddress(n), state, ago(s.Env.Now(), since), reach.Count(text.Line(n.GetName())).String(), n.GetVersion(), nodeNote(n))
	}
	for _, b := range strangers(list.GetBans(), list.GetNodes()) {
		t.add(first(b.GetName(), b.GetPeerId()), "", "", "banned", ago(s.Env.Now(), b.GetAtUnixMs()), "", "", "no node is registered with this key")
	}
	t.addCandidates(list.GetCandidates(), func(c *swarmv1.Candidate) string { return ago(s.Env.Now(), c.GetSinceUnixMs()) })
	t.addInvited(list.GetInvited(), func(unixMS int64) string { return ago(s.Env.Now(), unixMS) })
	return t.print(s.Env.Stdout)
}

// nodePairs says who has a connection with whom, of the nodes that are there.
func nodePairs(nodes []*swarmv1.Node) *pairs.Table {
	var there []pairs.Node
	for _, n := range nodes {
		if n.GetLive() && !n.GetBanned() {
			there = append(there, pairs.Node{Name: text.Line(n.GetName()), Role: n.GetRole(), Links: pairs.Bound(n.GetLinks())})
		}
	}
	return pairs.Tabulate(there)
}

// nodeRows are nodes as the original shows them, whose Python class reads seven columns. A node's UUID is its peer ID, and its
// parent the SN through which it reports. A node that is alive has been heard of just now, another one before it was found dead.
func nodeRows(nodes []*swarmv1.Node, now time.Time) [][]string {
	peerIDs := map[string]string{}
	for _, n := range nodes {
		peerIDs[n.GetName()] = n.GetPeerId()
	}
	rows := [][]string{{"TYPE", "HOST_IP", "PORT", "CONTAINER", "UUID", "PARENT_UUID", "LAST_I_AM_ALIVE"}}
	for _, n := range nodes {
		kind, seen := strings.ToUpper(n.GetRole()), n.GetLiveSinceUnixMs()
		if n.GetSentinel() {
			kind = "SENTINEL"
		}
		if n.GetLive() {
			seen = now.UnixMilli()
		}
		host, port := n.GetHost(), strconv.FormatUint(uint64(nodePort(n)), 10)
		if h, p, err := net.SplitHostPort(n.GetApiService()); err == nil { // others reach it behind a proxy
			host, port = h, p
		}
		rows = append(rows, []string{
			kind, host, port, n.GetName(), n.GetPeerId(), peerIDs[n.GetSn()], clockTime(seen),
		})
	}
	return rows
}

func nodesToJSON(list *swarmv1.ListNodesResponse) nodesJSON {
	out := nodesJSON{
		Nodes: []nodeJSON{}, Bans: []banJSON{}, NoQuorum: noQuorumToJSON(list.GetNoQuorum()), Candidates: candidatesToJSON(list.GetCandidates()),
		Invited: invitedToJSON(list.GetInvited()),
	}
	reach := nodePairs(list.GetNodes())
	for _, n := range list.GetNodes() {
		node, count := nodeToJSON(n, list.GetNoQuorum()), reach.Count(text.Line(n.GetName()))
		node.Needs, node.Reaches = count.Needs, count.Has
		out.Nodes = append(out.Nodes, node)
	}
	for _, b := range list.GetBans() {
		out.Bans = append(out.Bans, banToJSON(b))
	}
	return out
}

func nodeToJSON(n *swarmv1.Node, q *swarmv1.NoQuorum) nodeJSON {
	use := n.GetUse()
	state, since := nodeState(n, q)
	return nodeJSON{
		Name: n.GetName(), Role: n.GetRole(), Host: n.GetHost(),
		P2PPort: n.GetP2PPort(), APIPort: n.GetApiPort(), FSPort: n.GetFsPort(),
		Banned: n.GetBanned(), State: state, Live: n.GetLive() && (q == nil || state == "alive"), LiveSince: stamp(since), LeftReason: n.GetLeftReason(), Sentinel: n.GetSentinel(), Leader: n.GetLeader(),
		Runtime: n.GetRuntime(), Reached: dialAnswer(n.GetDialBack()), Version: n.GetVersion(), SpiffeID: n.GetSpiffeId(), PeerID: n.GetPeerId(),
		Taskrunner: text.Line(n.GetOffer().GetTaskrunner()), Peers: n.GetOffer().GetPeers(),
		CPUs: n.GetOffer().GetCpus(), MemoryBytes: n.GetOffer().GetMemoryBytes(), GPUs: n.GetOffer().GetGpus(), DiskBytes: n.GetOffer().GetDiskBytes(), Labels: labelsOf(n.GetOffer()), Ranks: n.GetRanks(),
		Use: useJSON{use.GetOpenSessions(), use.GetEndedSessions(), use.GetContracts(), use.GetBytes()},
	}
}

// nodeAddress is where others reach the node first: the API of an SN, the file server of the rest; of a node that listens nowhere its host.
func nodeAddress(n *swarmv1.Node) string {
	if nodePort(n) == 0 {
		return n.GetHost()
	}
	return net.JoinHostPort(n.GetHost(), strconv.FormatUint(uint64(nodePort(n)), 10))
}

func nodePort(n *swarmv1.Node) uint32 {
	if n.GetApiPort() != 0 {
		return n.GetApiPort()
	}
	return n.GetFsPort()
}

func nodeNote(n *swarmv1.Node) string {
	switch {
	case n.GetSentinel() && n.GetLeader():
		return "sentinel, leader"
	case n.GetSentinel():
		return "sentinel"
	case n.GetLeader():
		return "leader"
	case n.GetBanned():
		return ""
	case n.GetLeftReason() != "":
		return n.GetLeftReason()
	case n.GetOffer() != nil:
		return "takes tasks of " + strings.Join(append([]string{n.GetOffer().GetTaskrunner()}, offered(n.GetOffer())...), ", ")
	case n.GetRanks() > 0:
		return strings.TrimSuffix(many(int(n.GetRanks()), "rank")+", "+dialNote(n.GetDialBack()), ", ")
	}
	return dialNote(n.GetDialBack())
}

// offered is what a host has, as it has said, in words.
func offered(o *swarmv1.Offer) (all []string) {
	if n := o.GetCpus(); n > 0 {
		all = append(all, many(int(n), "CPU"))
	}
	if n := o.GetMemoryBytes(); n > 0 {
		all = append(all, fmt.Sprintf("%d GiB", (n+1<<29)>>30))
	}
	if n := o.GetGpus(); n > 0 {
		all = append(all, many(int(n), "GPU"))
	}
	return append(all, labelsOf(o)...)
}

func labelsOf(o *swarmv1.Offer) []string {
	all := []string{}
	for _, l := range o.GetLabels() {
		all = append(all, text.Line(l))
	}
	return all
}

// dialNote says what came of dialling a node back.
func dialNote(d *swarmv1.DialBack) string {
	switch d.GetAnswer() {
	case "yes":
		return "reached by " + d.GetSn()
	case "no":
		return "not reached by " + d.GetSn() + ": " + d.GetCause()
	case "not tried":
		return "not tried by " + d.GetSn() + ": " + d.GetCause()
	case "other key":
		return "another node answers at " + d.GetAddress()
	}
	return ""
}

// dialAnswer is dialNote for scripts.
func dialAnswer(d *swarmv1.DialBack) string {
	if d.GetCause() != "" {
		return text.Line(d.GetAnswer() + ": " + d.GetCause())
	}
	return text.Line(d.GetAnswer())
}

func forgetNode(ctx context.Context, s *Session, args Args) error {
	return s.withAPI(ctx, args.Opts, func(api client.Operator) error {
		name := args.Value("NAME")
		if err := api.ForgetNode(ctx, name); err != nil {
			return fmt.Errorf("forget node %q: %w", name, err)
		}
		if s.JSON {
			return printJSON(s.Env.Stdout, forgottenJSON{name})
		}
		fmt.Fprintf(s.Env.Stdout, "node %s is forgotten, its name is free\n", text.Line(name))
		return nil
	})
}
