package state

// Rules of a contract. A zero field demands nothing. Shares are in millionths, so that nothing is rounded differently
// anywhere.
type Rules struct {
	Method            string   `json:"method,omitempty"` // canonical; sessions must ask for the same or for none
	MinPeers          uint32   `json:"min_peers,omitempty"`
	ExpectedPeers     uint32   `json:"expected_peers,omitempty"`
	Required          []string `json:"required,omitempty"` // names of nodes without which no round is planned, sorted
	MinWeightSharePPM uint32   `json:"min_weight_share_ppm,omitempty"`
	WeightCapPPM      uint32   `json:"weight_cap_ppm,omitempty"`
	Export            bool     `json:"export,omitempty"`     // swarmctl may fetch models
	NonFinite         string   `json:"non_finite,omitempty"` // "drop" or "fail"
	QuorumWaitMS      uint32   `json:"quorum_wait_ms,omitempty"`
	StallGraceMS      uint32   `json:"stall_grace_ms,omitempty"`
	MinPeersTimeoutMS uint32   `json:"min_peers_timeout_ms,omitempty"`
}
