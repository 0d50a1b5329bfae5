package state

import "github.com/swarmd/swarmd/identity/naming"

// MaxLeaveReason bounds the reason that a node gives when it leaves, in bytes.
const MaxLeaveReason = 256

// endLeft begins the end reason of sessions whose node left.
const endLeft = "left: "

// LeaveNode takes a node out of the swarm at its own request: its sessions end with the reason "left: …", it counts as dead at
// once, and that is no fault until it registers again. Nothing else makes it live: a heartbeat that arrives after it does not bring the node back.
//
// What a closed session would still have contributed goes with its node; its close goes on counting towards the end of
// training, as that of a node that died.
type LeaveNode struct {
	Node string `json:"node"`
	// TokenHash is of the token that it speaks with. If the node has registered again since, the command comes
	// late from a previous run, and changes nothing.
	TokenHash string `json:"token_hash"`
	Reason    string `json:"reason"` // 1 to MaxLeaveReason bytes of one line
	AtMS      int64  `json:"at_ms"`
}

// Type implements Command.
func (LeaveNode) Type() string { return "leave_node" }

func (c LeaveNode) apply(s *State) (Result, error) {
	switch {
	case !validLeft(c.Reason):
		return Result{}, reject(ReasonBadCommand, "give one line of plain text", "the reason to leave is %d bytes, want 1 to %d of one line", len(c.Reason), MaxLeaveReason)
	case !validHex(c.TokenHash, 64):
		return Result{}, reject(ReasonBadCommand, "", "bad token hash of node %.80q", c.Node)
	}
	old := s.Nodes[c.Node]
	if old == nil {
		return Result{}, reject(ReasonNodeUnknown, "", "no node %q", clip(c.Node, 80))
	}
	if old.Role == naming.RoleSN {
		return Result{}, reject(ReasonBadCommand, "stop it: the other SNs notice", "node %s is an SN, it can't leave in this way", old.Name)
	}
	if old.LeftReason != "" || len(old.TokenHashes) == 0 || old.TokenHashes[0] != c.TokenHash {
		return Result{}, nil
	}
	n := *old
	n.LeftReason = Clip(c.Reason, MaxLeaveReason)
	if n.Live {
		n.Live, n.LiveSinceMS = false, c.AtMS
	}
	s.setNode(&n)
	if err := s.endSessionsOf(n.Name, endLeft+c.Reason); err != nil {
		return Result{}, err
	}
	return Result{Changed: true}, nil
}

// Left reports whether the node left and has not registered since.
func (n *Node) Left() bool { return n.LeftReason != "" }

func validLeft(reason string) bool {
	return reason != "" && len(reason) <= MaxLeaveReason && oneLine(reason)
}

// checkLeft holds that a node that left is not taken for one that is there.
func (n *Node) checkLeft() bool {
	return n.LeftReason == "" || validLeft(n.LeftReason) && !n.Live && n.Role != naming.RoleSN
}

func nodeLeft(n *Node) error {
	return reject(ReasonNodeLeft, "register the node again", "node %s has left: %s", n.Name, n.LeftReason)
}
