package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Body is what a record says. The types of this package are the only ones.
type Body interface {
	// Kind is the name of the type in records.
	Kind() string
}

// decoders has one entry for every kind ever written.
var decoders = map[string]func([]byte) (Body, error){
	Swarm{}.Kind():        decodeAs[Swarm],
	Bundle{}.Kind():       decodeAs[Bundle],
	Registration{}.Kind(): decodeAs[Registration],
	Forget{}.Kind():       decodeAs[Forget],
	Round{}.Kind():        decodeAs[Round],
	Over{}.Kind():         decodeAs[Over],
	Reset{}.Kind():        decodeAs[Reset],
	LostModel{}.Kind():    decodeAs[LostModel],
	AdoptedRound{}.Kind(): decodeAs[AdoptedRound],
	Ban{}.Kind():          decodeAs[Ban],
	Unban{}.Kind():        decodeAs[Unban],
	Admission{}.Kind():    decodeAs[Admission],
	Invitation{}.Kind():   decodeAs[Invitation],
	Rules{}.Kind():        decodeAs[Rules],
	Fetch{}.Kind():        decodeAs[Fetch],
	Deleted{}.Kind():      decodeAs[Deleted],
	Program{}.Kind():      decodeAs[Program],
	Pause{}.Kind():        decodeAs[Pause],
	Resume{}.Kind():       decodeAs[Resume],
	End{}.Kind():          decodeAs[End],
	Recovery{}.Kind():     decodeAs[Recovery],

	Task{}.Kind():            decodeAs[Task],
	FinalTask{}.Kind():       decodeAs[FinalTask],
	DeletedTask{}.Kind():     decodeAs[DeletedTask],
	Assigned{}.Kind():        decodeAs[Assigned],
	Approval{}.Kind():        decodeAs[Approval],
	EndedAssignment{}.Kind(): decodeAs[EndedAssignment],

	Rights{}.Kind(): decodeAs[Rights],
}

func decodeAs[B Body](raw []byte) (Body, error) {
	var b B
	err := strict(raw, &b)
	return b, err
}

// Swarm is the first record of every ledger.
type Swarm struct {
	SwarmID string `json:"swarm_id"`
	Late    bool   `json:"late,omitempty"` // rounds were committed before the ledger began
	// Admit is "operator" if operators admit SNs, and Admitted are those that were admitted when the ledger began: the founder.
	Admit    string     `json:"admit,omitempty"`
	Admitted []Admitted `json:"admitted,omitempty"`
}

// Admitted is a node key that may join as the SN of a name.
type Admitted struct {
	Node   string `json:"node"`
	PeerID string `json:"peer_id"`
}

// Kind implements Body.
func (Swarm) Kind() string { return "swarm" }

// Bundle says which authorities sign for a trust domain from here on.
type Bundle struct {
	TrustDomain  string   `json:"trust_domain"`
	Certificates [][]byte `json:"certificates"` // DER
}

// Kind implements Body.
func (Bundle) Kind() string { return "bundle" }

// Registration says that a node key speaks for a name from here on, in the word of an SVID.
type Registration struct {
	Node     string `json:"node"`
	Role     string `json:"role"`
	SPIFFEID string `json:"spiffe_id"`
	PeerID   string `json:"peer_id"` // holds the public node key
	// Signature of the SVID's key over identity.OwnershipMessage of swarm, node and peer ID.
	Signature []byte   `json:"signature"`
	Chain     [][]byte `json:"chain"` // the SVID's certificates, DER, leaf first
}

// Kind implements Body.
func (Registration) Kind() string { return "registration" }

// Forget frees a name.
type Forget struct {
	Node   string `json:"node"`
	PeerID string `json:"peer_id"` // empty: there was an invitation alone
	Order  *Order `json:"order,omitempty"`
	// Invitation is the number of the one that was taken back with it; 0: none was.
	Invitation uint64 `json:"invitation,omitempty"`
}

// Kind implements Body.
func (Forget) Kind() string { return "forget" }

// Round is a committed model and who made it.
type Round struct {
	Contract     string        `json:"contract"`
	Run          uint64        `json:"run"`
	Round        uint64        `json:"round"`
	Attempt      uint64        `json:"attempt"`
	Method       string        `json:"method"`
	Layout       string        `json:"layout"`              // hex BLAKE3 of the canonical layout
	Model        string        `json:"model"`               // hex BLAKE3 of the merged model
	State        string        `json:"state,omitempty"`     // hex BLAKE3 of the optimiser's state, if the method has one
	Shards       []string      `json:"shards"`              // hex BLAKE3 of each participant's shard; null where shards_digest stands
	Witnessed    Witness       `json:"witnessed"`           // the ledger when the round was planned: signed by all participants
	Participants []Participant `json:"participants"`        // in summation order
	Epoch        uint64        `json:"epoch,omitempty"`     // of the plan: counts the contradictions in earlier attempts
	Witnesses    uint32        `json:"witnesses,omitempty"` // how many merged each part of the model; 0: its owner alone
	// ShardsDigest is the hex BLAKE3 over the digests of all participants' shards, in their order. Records of before have shards.
	ShardsDigest string `json:"shards_digest,omitempty"`
}

// Kind implements Body.
func (Round) Kind() string { return "round" }

// Witness is an earlier end of the chain.
type Witness struct {
	Length uint64 `json:"length"`
	Hash   string `json:"hash"`
}

// Participant is one node's part in a round.
type Participant struct {
	Node        string  `json:"node"`
	PeerID      string  `json:"peer_id"`
	Session     string  `json:"session"`
	Weight      uint32  `json:"weight"`
	Factor      float64 `json:"factor,omitempty"` // its update was multiplied by it; 0: the method bounds no updates
	ShardFirst  uint64  `json:"shard_first"`      // first leaf of its shard
	ShardLeaves uint64  `json:"shard_leaves"`
	Signature   []byte  `json:"signature"` // by its node key over exchange.AttestationMessage
	// MoreShards are further runs of leaves that it owns, ascending, behind the first.
	MoreShards []LeafRun `json:"more_shards,omitempty"`
	// SPIFFEID is its own, by which witnesses were told apart; empty where nodes share it, or there were none.
	SPIFFEID string `json:"spiffe_id,omitempty"`
}

// LeafRun is a contiguous run of leaves.
type LeafRun struct {
	First  uint64 `json:"first"`
	Leaves uint64 `json:"leaves"`
}

// Runs returns all runs of leaves that the participant owns.
func (p Participant) Runs() []LeafRun {
	return append([]LeafRun{{p.ShardFirst, p.ShardLeaves}}, p.MoreShards...)
}

// Tile holds that runs, one list for each participant, ascend in each and cover all leaves from 0 on exactly once. It returns how many
// leaves that are, or else what is wrong, and with whom. Only a first run may be empty, if it is the only one.
func Tile(owned [][]LeafRun) (leaves uint64, wrong int, err error) {
	type run struct {
		LeafRun
		of int
	}
	var all []run
	for i, runs := range owned {
		for k, r := range runs {
			switch {
			case k > 0 && (r.Leaves == 0 || runs[k-1].Leaves == 0 || r.First < runs[k-1].First):
				return 0, i, fmt.Errorf("run %d+%d does not follow on %d+%d", r.First, r.Leaves, runs[k-1].First, runs[k-1].Leaves)
			case r.Leaves > 0:
				all = append(all, run{r, i})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b run) int { return cmp.Compare(a.First, b.First) })
	for _, r := range all {
		if r.First != leaves || leaves+r.Leaves < leaves {
			return 0, r.of, fmt.Errorf("leaf %d is due, not %d", leaves, r.First)
		}
		leaves += r.Leaves
	}
	return leaves, 0, nil
}

// Over says that a contract's training has ended with this model.
type Over struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Round    uint64 `json:"round"`
	Model    string `json:"model"`
}

// Kind implements Body.
func (Over) Kind() string { return "over" }

// Reset begins another run of a contract.
type Reset struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"` // the new one
	Order    *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Reset) Kind() string { return "reset" }

// Program says which program a session is for, as the session's node said when it was opened. It comes before the first round that the
// session takes part in; in records of before, when the session was opened. Nobody has signed it.
type Program struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Session  string `json:"session"`
	Node     string `json:"node"`
	PeerID   string `json:"peer_id"`
	Program  string `json:"program"` // "train.py sha256:HEX", and the image of its container
}

// Kind implements Body.
func (Program) Kind() string { return "program" }

// Halt is what the records of operators who pause, resume or end a training say alike.
type Halt struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Order    *Order `json:"order,omitempty"`
}

// Pause says that no round of a contract is planned from here on, also in later runs.
type Pause Halt

// Kind implements Body.
func (Pause) Kind() string { return "pause" }

// Resume ends a pause.
type Resume Halt

// Kind implements Body.
func (Resume) Kind() string { return "resume" }

// End makes the next round of a run the final one. If none can be held, Over follows with the model that there is.
type End Halt

// Kind implements Body.
func (End) Kind() string { return "end" }

// Deleted ends a contract. If there is one of its name again it begins with a run behind those of all that were deleted.
type Deleted struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`               // its last
	Expired  bool   `json:"expired,omitempty"` // it went by itself: nobody used it, and it never had a model
	Order    *Order `json:"order,omitempty"`   // the operator's; none if it went by itself
}

// Kind implements Body.
func (Deleted) Kind() string { return "deleted" }

// LostModel says that nobody held a model any more and training went back to an older one.
type LostModel struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Round    uint64 `json:"round"`
	Model    string `json:"model"`
	Resumed  uint64 `json:"resumed"` // the round whose model training goes on from; 0: anew
}

// Kind implements Body.
func (LostModel) Kind() string { return "lost_model" }

// AdoptedRound says that SNs which were restored from a backup went on from a newer model than they knew of: one of a round that the ledger
// lacks, as it lacks those between.
type AdoptedRound struct {
	Round uint64 `json:"round"` // the number that the model has from here on
	Last  uint64 `json:"last"`  // the run's last round before this record; 0: none
	// Proof is the round as those who merged it have signed it. Who was not heard has no signature. What is signed of the ledger is that of
	// before the backup was restored: it has a hash and no length.
	Proof Round `json:"proof"`
}

// Kind implements Body.
func (AdoptedRound) Kind() string { return "adopted_round" }

// Ban shuts a node key out.
type Ban struct {
	PeerID string `json:"peer_id"`
	Node   string `json:"node,omitempty"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by"` // SPIFFE ID
	Order  *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Ban) Kind() string { return "ban" }

// Unban lets a node key in again.
type Unban struct {
	PeerID string `json:"peer_id"`
	Order  *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Unban) Kind() string { return "unban" }

// Admission lets a node key join as the SN of a name. It holds until the node is forgotten or the key is banned.
type Admission struct {
	Node   string `json:"node"`
	PeerID string `json:"peer_id"`
	By     string `json:"by"` // SPIFFE ID of who admitted it, or invited it
	Order  *Order `json:"order,omitempty"`
	// Invitation is the number of the invitation that the key has claimed, and Claim the signature that shows it; there is no order then.
	Invitation uint64 `json:"invitation,omitempty"`
	Claim      []byte `json:"claim,omitempty"` // by the invitation's key: claim.Verify
}

// Kind implements Body.
func (Admission) Kind() string { return "admission" }

// Invitation lets the first node key that claims it join as the SN of a name. It ends one that was made before for the same name.
type Invitation struct {
	Number    uint64 `json:"number"` // counts the swarm's from 1
	Node      string `json:"node"`
	SPIFFEID  string `json:"spiffe_id"`  // that the SN must bear
	Key       []byte `json:"key"`        // public; the invited host has the private one
	ExpiresMS int64  `json:"expires_ms"` // no claim is good from then on; Unix milliseconds
	By        string `json:"by"`         // SPIFFE ID
	Order     *Order `json:"order,omitempty"`
}

// Kind implements Body.
func (Invitation) Kind() string { return "invitation" }

// Rules are what a contract demands from here on; its order has them. They make the contract if there was none.
type Rules struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"` // from which on they bind
	Order    *Order `json:"order"`
}

// Kind implements Body.
func (Rules) Kind() string { return "rules" }

// Order is what an operator asked for, in the words that were signed. Records of before orders were signed lack it.
type Order struct {
	By        string          `json:"by"`        // SPIFFE ID
	Method    string          `json:"method"`    // of the API, such as CreateContract
	Request   json.RawMessage `json:"request"`   // protobuf's JSON of the API's request
	AskedMS   int64           `json:"asked_ms"`  // Unix milliseconds by the operator's clock
	Nonce     []byte          `json:"nonce"`     // the leader's; none is used twice
	Witnessed Witness         `json:"witnessed"` // the ledger when the nonce was given
	Signature []byte          `json:"signature"` // by the SVID's key over identity.OrderMessage
	Chain     [][]byte        `json:"chain"`     // the SVID's certificates, DER, leaf first
}

// Fetch is a model that a node let out to an operator.
type Fetch struct {
	Contract  string `json:"contract"`
	Run       uint64 `json:"run"`
	Round     uint64 `json:"round"`
	Model     string `json:"model"`
	By        string `json:"by"` // SPIFFE ID of the operator
	Node      string `json:"node"`
	PeerID    string `json:"peer_id"`
	SeenMS    int64  `json:"seen_ms"`   // by the node's clock
	Signature []byte `json:"signature"` // by its key over identity.FetchMessage
}

// Kind implements Body.
func (Fetch) Kind() string { return "fetch" }
