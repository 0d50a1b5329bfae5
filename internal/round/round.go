// Package round has the words in which a Swarm Learning node speaks of rounds: what a contract shows of one, what a program offers, what
// came out. They are plain data, free of any wire format; package onwire converts what goes over the API.
package round

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/merge"
)

// Model names a committed model. The zero value is "none yet".
type Model struct {
	Round  uint64 `json:"round"`
	Digest string `json:"digest,omitempty"` // hex BLAKE3; empty with a round: training began anew in it, since no node held a model any more
	State  string `json:"state,omitempty"`  // hex BLAKE3 of the optimiser's state that belongs to it; empty if the method has none
}

// Exists reports whether there are weights.
func (m Model) Exists() bool { return m.Digest != "" }

// Check holds that both digests may be some.
func (m Model) Check() error {
	_, err := merge.ParseDigest(m.Digest)
	if err == nil && m.State != "" {
		_, err = merge.ParseDigest(m.State)
	}
	return err
}

// Ref names a committed model among those of all contracts. The round is for people: what is asked for is told by the digests.
type Ref struct {
	Contract string
	Run      uint64
	Model
}

// Terms are what every session of a contract must agree on.
type Terms struct {
	LayoutDigest string `json:"layoutDigest,omitempty"` // hex BLAKE3 of the canonical layout
	Layout       []byte `json:"layout,omitempty"`       // canonical JSON; empty in views
	Method       string `json:"method,omitempty"`       // canonical; empty: the contract's
	MinPeers     uint32 `json:"minPeers,omitempty"`
	Weights      string `json:"weights,omitempty"` // state.WeightsSamples or empty
}

// MaxWeight is the largest weight that a session of these terms can have.
func (t Terms) MaxWeight() uint32 { return state.Terms{Weights: t.Weights}.MaxWeight() }

// Open asks a contract to take a session. The names of its JSON are those of the API's messages, for the node's own records.
type Open struct {
	Session       string `json:"session,omitempty"` // 32 hex digits
	Contract      string `json:"contract,omitempty"`
	Terms         Terms  `json:"terms,omitzero"`
	ExpectedPeers uint32 `json:"expectedPeers,omitempty"` // 0: unknown
	SyncFrequency uint32 `json:"syncFrequency,omitempty"` // start interval in batches
	Adaptive      bool   `json:"adaptive,omitempty"`
	CheckinMode   string `json:"checkinMode,omitempty"` // "inactive", "snapshot", "active", "once"; empty: the program chose none
	// CheckinDefault is the mode that the node has for a program that chooses none; empty: none.
	CheckinDefault string `json:"checkinDefault,omitempty"`
	Weight         uint32 `json:"weight,omitempty"` // up to state.Terms.MaxWeight
	TotalEpochs    uint32 `json:"totalEpochs,omitempty"`
	Isolation      string `json:"isolation,omitempty"`    // what keeps the program in
	NoShard        bool   `json:"noShard,omitempty"`      // the node wants to own no part of a merge
	QuorumWaitMS   uint32 `json:"quorumWaitMs,omitempty"` // what the node asks for; 0: nothing
	StallGraceMS   uint32 `json:"stallGraceMs,omitempty"` // likewise
	Program        string `json:"program,omitempty"`      // which program runs: its file's digest, and its image
	Late           bool   `json:"late,omitempty"`         // the contract may be completed if the node has had a session of its terms in this run
}

// Close tells a contract that a session's training ended.
type Close struct {
	Session, Contract string
	Run               uint64
	CheckinMode       string  // empty: as at the opening
	Seq               uint64  // of the last Sync
	Weight            *uint32 // how many samples there are, where weights are that; else nil
}

// End tells a contract that a session is gone.
type End struct {
	Session, Contract string
	Run               uint64
	Reason            string // "finished", or why it failed
	ExitCode          int32
}

// View is a contract as an SN shows it. Nobody modifies one that was handed on. The zero value shows nothing.
type View struct {
	Name      string
	Run       uint64
	Index     uint64               // raft index: never goes back on one SN; 0: nothing was shown yet
	Terms     Terms                // zero until fixed
	Rules     Rules                // zero if there are none
	Committed state.CommittedRound // of round 0 before the first
	Plan      *Plan                // nil when no attempt is running
	Over      bool                 // the committed model is final
	Sessions  []*Session           // in the order of their opening
	Lost      state.LostModel      // the last committed model that no node held any more; of round 0 if there was none in this run
	Adopted   Adopted              // zero if there was none
	Skipped   string               // why the last round was given up that was
	Halt      *state.Halt          // that an operator has paused the training or ends it; nil: neither
}

// Model is the contract's last committed model.
func (v *View) Model() Model {
	return Model{Round: v.Committed.Round, Digest: v.Committed.Digest, State: v.Committed.StateDigest}
}

// Session returns that of an ID, nil if the view does not show it.
func (v *View) Session(id string) *Session {
	for _, m := range v.Sessions {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// Rules of a contract, as far as its sessions go by them. A zero field demands nothing.
type Rules struct {
	Method    string // canonical
	MinPeers  uint32
	WeightCap float64  // no participant's weight counts for more than this share of the whole, 0 to 1
	Export    bool     // swarmctl may fetch models
	Owners    []string // patterns of SPIFFE IDs: only nodes of these own parts of the model
	Witnesses uint32   // so many nodes merge each part of the model; 0 and 1: its owner alone
	// CheckinDefault is the check-in mode of sessions whose programs choose none; empty: as their nodes say.
	CheckinDefault string
}

// Adopted is a round that SNs took over which had been restored from a backup.
type Adopted struct {
	Round       uint64 // the number that the model has since
	LastRound   uint64 // the last one that they knew of; 0: none
	ProvenRound uint64 // the one in which it was merged
}

// Session is one session of a contract, with its node's addresses.
type Session struct {
	ID, Node, PeerID, SPIFFEID string
	Proof                      string // digest of the node's proof of registration, hex; empty: there is none
	Host                       string
	FSPort                     uint32
	Live                       bool   // the node is alive
	State                      string // "open", "closed", "ended"
	NoShard                    bool   // it owns no part of a merge
	LastSeq, LastRound         uint64
	SkippedSeq                 uint64 // the newest Sync that was answered without a model; 0: none
	EndReason                  string
	Run                        uint64
}

// Plan is the running attempt of a round. Participants are in summation order.
type Plan struct {
	Run, Round, Attempt uint64
	Participants        []*Participant
	Method              string
	LedgerHead          string // hex hash of the ledger's last record when this was planned; empty: there was none
	Epoch               uint64 // counts what ended an attempt of the round so that nothing of it may be resumed
	Witnesses           uint32 // so many merge each part of the model; 0: its owner alone
}

// Participant is a session that takes part in an attempt.
type Participant struct {
	Session, Node, PeerID, SPIFFEID string
	Host                            string
	FSPort                          uint32
	Weight                          uint32 // 0: contributes nothing, only receives
	Seq                             uint64
	Shards                          []state.LeafRun // what it owns, ascending; none: nothing
	Factor                          float64         // its update is multiplied by this, over 0 to 1; 0: the method bounds no updates
}

// Unit names the party that the participant is of: see [state.Unit].
func (p *Participant) Unit() string { return state.Unit(p.SPIFFEID, p.PeerID) }

// Report is everything that the leader may need to know of one session, now.
type Report struct {
	Session, Contract string
	Run               uint64
	Ready             *Ready  // set while the session waits for a round
	Done              *Done   // set after an exchange, until the round is committed or superseded
	Failed            *Failed // set after a failed exchange, until superseded
	Progress          *Progress
	Held              []Model // committed models of this contract and run that the node can give out
	Number            uint64  // counts up with each change of what the signature covers, over all runs of the node
	Signature         []byte  // by the node key over statement.Message; empty in what a node reports to the SN that leads
	Proofs            []*Proof
	Trained           *Trained    // nil: nothing is known, or the leader does not take it
	Unreached         []Unreached // at most MaxUnreached; likewise
	WarningsSeen      string      // digest of the last warnings that the node took; the signature does not cover it
}

// Trained says what a session's program has trained, as far as it tells, and whether that changed its model. Counts are from the
// session's start unless said otherwise. The names of its JSON are those of the API's messages, for the node's own records.
type Trained struct {
	Seq            uint64 `json:"seq,omitempty,string"`            // the newest Sync that is counted
	Ended          bool   `json:"ended,omitempty"`                 // what was trained until the close is counted
	Counted        bool   `json:"counted,omitempty"`               // the program counts batches
	Batches        uint64 `json:"batches,omitempty,string"`        // of the newest contribution: since the merge before it
	Samples        uint64 `json:"samples,omitempty,string"`        // likewise; 0: not known
	TotalBatches   uint64 `json:"totalBatches,omitempty,string"`   // all
	TotalSamples   uint64 `json:"totalSamples,omitempty,string"`   // all; 0: not known
	DataSamples    uint64 `json:"dataSamples,omitempty,string"`    // in one pass through the program's data; 0: not known
	Changed        uint64 `json:"changed,omitempty,string"`        // contributions that were another model than the one merged last
	Unchanged      uint64 `json:"unchanged,omitempty,string"`      // the newest so many were that model, byte for byte, though the program had trained
	UnchangedSince uint64 `json:"unchangedSince,omitempty,string"` // round of that model at the first of them
}

// MaxUnreached bounds what a session reports of others that it can't reach.
const MaxUnreached = 32

// Unreached is a node to which another can't open a connection.
type Unreached struct {
	Node, Address string // Address is the HOST:PORT that was dialled
	Cause         string // "refused", "timeout", "unreachable", "unresolved"
	Linked        bool   // a connection stands all the same, which the other has made
	Before        bool   // one has stood between the two in these sessions
}

// Answer is what an SN says to a report.
type Answer struct {
	Leads   bool     // what the node reports to the SN that answers needs no signature, as long as it says so
	Sign    bool     // the SN does not lead, and has not passed on what was not signed
	Asks    []Asked  // what is to be told in full
	Prove   bool     // sessions hold newer models than the SN knows of: reports should have proofs
	Unknown []string // those of such sessions that the SN does not know

	TakesTrained   bool       // the SN that leads takes Report.Trained
	WarningsDigest string     // of the warnings that stand now; empty: the SN knows of none
	Warnings       []Warnings // by session; only when the digest differs from Report.WarningsSeen
}

// Warnings are those about a session's contract, one line each, for its program's log.
type Warnings struct {
	Session string
	Texts   []string
}

// Asked names an attempt of which a session that is done with it says all that Done can say.
type Asked struct {
	Session             string
	Run, Round, Attempt uint64
}

// Ready says that a session's weights are ready to be merged.
type Ready struct {
	Seq        uint64 // the program's Sync number
	BaseRound  uint64 // the round that training started from; 0: none
	BaseDigest string // hex; empty for none
	Weight     uint32
	UpdateNorm float64  // of the offered model minus the base, for methods that bound it
	Refuses    []string // names of nodes that this one takes part in nothing with, sorted
}

// Done says that a session holds the merged model of an attempt. The exchange makes it, the session has it signed and reports it, the
// leader judges it. Whoever has one must not modify it. Digests are in hex, as reports, the log and signatures over them have them.
type Done struct {
	Round, Attempt uint64
	ModelDigest    string         // hex BLAKE3
	StateDigest    string         // hex BLAKE3 of the optimiser's state; empty if the method has none
	Leaves         []merge.Digest // of the merged model, which ModelDigest combines; they are not reported
	ShardsDigest   string         // hex BLAKE3 over the digests of all shards, in plan order
	ShardDigests   []string       // hex BLAKE3 of each participant's shard, in plan order; empty as long as they are not asked for
	Signature      []byte         // by the node key, over what the ledger keeps
	UpdateSquares  []float64      // by participant: the sum of squares of its update, before bounding, over the leaves that the reporter owns; nil: it owns none, or the method bounds no updates
	Seals          [][]byte       // by participant: its signature over its shard's digest, nil if it owns nothing; there with ShardDigests
	Claims         []Claim        // of the parts that the reporter merged, ascending by owner, if they have witnesses
}

// Claim is what one of a part's mergers, its owner or a witness, has made of the part, and of what. Two claims of honest mergers differ in
// nothing if each contributor has sent both of them the same.
type Claim struct {
	Owner  int          // index in the plan
	Merged merge.Digest // over the digests of the part's leaves as they are to be stored: after an optimiser's step, and with 16 bits on the wire decoded
	Sums   merge.Digest // of the distances over the part, with the contributors' signed norms; zero: the method needs none
	Inputs []Input      // of each participant of weight above 0, in plan order
}

// Shard returns the digest that the part has if the claim is true, which is what its owner seals and every report has of it in
// ShardDigests. An owner whose own claim has another one, or a witness's claim that differs here, is what witnesses are there to find.
func (c Claim) Shard() merge.Digest {
	if c.Sums.IsZero() {
		return c.Merged
	}
	return merge.Sum(slices.Concat([]byte("swarmd merge shard with distances 1\x00"), c.Merged[:], c.Sums[:]))
}

// Disagrees reports whether a node says that it has merged a shard otherwise than its owner gave it. It does not sign such an outcome for
// the ledger, so that nobody can prove a round by it.
func Disagrees(shards []merge.Digest, claims []Claim) bool {
	return slices.ContainsFunc(claims, func(c Claim) bool { return c.Owner < len(shards) && c.Shard() != shards[c.Owner] })
}

// Input is what a contributor has signed of its leaves in one part: see exchange.InputMessage.
type Input struct {
	Digest    merge.Digest // over the digests of its leaves as they travel
	Signature []byte
}

// CodeRefused is the code of a failure whose reporter has begun nothing, since it does not accept the plan.
const CodeRefused = "REFUSED"

// Failed says that a session gave an attempt up.
type Failed struct {
	Round, Attempt uint64
	Blamed         string     // node name; empty when nobody is to blame
	HeardFrom      string     // the participant that said so; empty: the reporter has seen it itself
	Reason         string     // one line
	BytesReceived  uint64     // in this attempt
	Code           string     // of one that has begun nothing: state.ReasonThirdOwner, leaves that two may have would go to a third, or CodeRefused
	Unreached      *Unreached // whom no connection could be opened to, if that was it
}

// MaxMetricName bounds Progress.MetricName, in bytes.
const MaxMetricName = 64

// Progress is what a program tells of its training. The names of its JSON are those of the API's messages, for the node's own records.
type Progress struct {
	Round       uint64  `json:"round,omitempty,string"` // the model that loss and metric were measured on; 0: local training
	Loss        float64 `json:"loss,omitempty"`
	Metric      float64 `json:"metric,omitempty"`
	HasLoss     bool    `json:"hasLoss,omitempty"`
	HasMetric   bool    `json:"hasMetric,omitempty"`
	EpochsDone  uint32  `json:"epochsDone,omitempty"`
	TotalEpochs uint32  `json:"totalEpochs,omitempty"`
	MetricName  string  `json:"metricName,omitempty"` // what the program calls the metric, one line; empty: it does not say
	Phase       string  `json:"phase,omitempty"`      // "starting", "training", "ready", "merging", "closed", "finished"
	// What the node's merge streams have carried since it started, in attempts that it completed.
	SentBytes     uint64 `json:"sentBytes,omitempty,string"`
	ReceivedBytes uint64 `json:"receivedBytes,omitempty,string"`
}

// Proof is a committed round as one of its participants has signed it.
type Proof struct {
	Plan   *Plan
	Layout string // hex BLAKE3 of the canonical layout
	Done   *Done
}
