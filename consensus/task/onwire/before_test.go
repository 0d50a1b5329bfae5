package onwire_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// TestWhatHostsOfBeforeSign: the bytes that a host without groups signs are what they were, for reports and for what the ledger has.
func TestWhatHostsOfBeforeSign(t *testing.T) {
	x := &swarmv1.MemberReport{Assignment: "7", Epoch: 1, Index: 2, State: "exited", Code: -3, Text: "x", Cleaned: true, Signature: []byte{9}}
	for what, tt := range map[string]struct {
		message []byte
		want    string
	}{
		"one": {onwire.MemberMessage("swarm", "h", x), "c6ee9b9cd6d099a72dbdbe3acc47b9f1cb2b8492d36ae6de6792e62240063205"},
		"all": {onwire.MembersMessage("swarm", "h", []*swarmv1.MemberReport{x, {Assignment: "8", State: "asked"}}), "cf1c4ecc0a35be316f3d6846c6cebaa77003a2c670c2bfd8689ae3802ef043ed"},
		"all, that ask": {
			onwire.MembersMessage("swarm", "h", []*swarmv1.MemberReport{{Assignment: "7", Epoch: 1, Index: 2, State: "ready", Text: "x", Signature: []byte{9}, Group: "peers", Peers: 2, Asks: "stop"}}),
			"02eb77806aa3b4bd786f3b7c97e88e4f1957b6c74abeb7a15deae59f26fdb7fa",
		},
		"all, with groups": {
			onwire.MembersMessage("swarm", "h", []*swarmv1.MemberReport{
				{Assignment: "7", Epoch: 1, Index: 2, State: "exited", Code: -3, Text: "x", Cleaned: true, Signature: []byte{9}, Group: "peers", Peers: 2}, {Assignment: "8", State: "asked"},
			}), "b9be9ac58df4b46e1b32e7c6a0ddf43b5505ebfc9231f7c30010f67d60d68fb3",
		},
	} {
		sum := sha256.Sum256(tt.message)
		if got := hex.EncodeToString(sum[:]); got != tt.want {
			t.Errorf("%s: %s, was %s", what, got, tt.want)
		}
	}
}
