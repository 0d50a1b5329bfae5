package onwire

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/text"
)

// maxSeal bounds a signature by a node key, in bytes.
const maxSeal = 64

// Members shows what a host says of its members, of at most task.MaxHosted. Words that are too long are cut.
func Members(all []task.MemberReport) (out []*swarmv1.MemberReport) {
	for _, r := range all[:min(len(all), task.MaxHosted)] {
		signature, err := base64.StdEncoding.DecodeString(r.Signature)
		if err != nil { // what is none is not sent
			signature = nil
		}
		told, err := base64.StdEncoding.DecodeString(r.IPSignature)
		if err != nil {
			told = nil
		}
		out = append(out, &swarmv1.MemberReport{
			Assignment: r.Assignment, Epoch: r.Epoch, Index: r.Member, State: string(r.State), Code: r.Code, Text: text.Cut(r.Text, task.MaxText), Cleaned: r.Cleaned, Signature: signature,
			Group: r.Group, Peers: r.Peers, Asks: r.Asks,
			Address: r.IP, AddressSignature: told,
		})
	}
	return out
}

// MemberMessage is what a node's key signs of one report, for the ledger.
func MemberMessage(swarmID, node string, x *swarmv1.MemberReport) []byte {
	return identity.MemberMessage(identity.MemberState{
		SwarmID: swarmID, Node: node, Assignment: x.GetAssignment(), Epoch: x.GetEpoch(), Member: x.GetIndex(), State: x.GetState(), Code: x.GetCode(),
		Group: x.GetGroup(), Peers: x.GetPeers(), Asks: x.GetAsks(),
	})
}

// MemberAddressMessage is what a node's key signs of a member's own address.
func MemberAddressMessage(swarmID, node string, x *swarmv1.MemberReport) []byte {
	return identity.MemberAddressMessage(swarmID, node, x.GetAssignment(), x.GetEpoch(), x.GetIndex(), x.GetAddress())
}

// FromMembers reads what a host says of its members.
func FromMembers(node string, all []*swarmv1.MemberReport) ([]task.MemberReport, error) {
	if len(all) > task.MaxHosted {
		return nil, fmt.Errorf("%w: %d members are reported, at most %d", errBounds, len(all), task.MaxHosted)
	}
	var out []task.MemberReport
	for _, x := range all {
		s := task.State(x.GetState())
		if !task.ValidID(x.GetAssignment()) || x.GetIndex() >= task.MaxMembers || !s.Known() || s == task.Placed || s == task.Lost || len(x.GetText()) > task.MaxText || len(x.GetSignature()) > maxSeal {
			return nil, fmt.Errorf("%w: member %d of assignment %.20q that is %.20q", errBounds, x.GetIndex(), x.GetAssignment(), s)
		}
		if grouped := naming.ValidNode(x.GetGroup()) && x.GetPeers() > 0 && x.GetPeers() <= task.MaxMembers; !grouped && (x.GetGroup() != "" || x.GetPeers() > 0) {
			return nil, fmt.Errorf("%w: member %d of assignment %.20q in group %.64q for %d peers", errBounds, x.GetIndex(), x.GetAssignment(), x.GetGroup(), x.GetPeers())
		}
		if asks := x.GetAsks(); asks != "" && (asks != task.AskStop && asks != task.AskFail || len(x.GetSignature()) == 0) {
			return nil, fmt.Errorf("%w: member %d of assignment %.20q asks for %.20q, or signs nothing", errBounds, x.GetIndex(), x.GetAssignment(), asks)
		}
		if told := len(x.GetAddressSignature()); (x.GetAddress() != "") != (told > 0) || told > maxSeal || told > 0 && (s != task.Prepared || !validIP(x.GetAddress())) {
			return nil, fmt.Errorf("%w: member %d of assignment %.20q that is %.20q at %.80q", errBounds, x.GetIndex(), x.GetAssignment(), s, x.GetAddress())
		}
		out = append(out, task.MemberReport{Assignment: x.GetAssignment(), Epoch: x.GetEpoch(), Group: x.GetGroup(), Peers: x.GetPeers(), Report: task.Report{
			Member: x.GetIndex(), Node: node, State: s, Code: x.GetCode(), Text: x.GetText(), Cleaned: x.GetCleaned(), Signature: base64.StdEncoding.EncodeToString(x.GetSignature()), Asks: x.GetAsks(),
			Address: task.Address{IP: x.GetAddress(), IPSignature: base64.StdEncoding.EncodeToString(x.GetAddressSignature())},
		}})
	}
	return out, nil
}

// MembersMessage is what a node's key signs of what it says of its members, so that an SN that passes it on can change nothing of it. An
// older one does no harm: nothing that was once true of a member of an epoch becomes untrue.
func MembersMessage(swarmID, node string, all []*swarmv1.MemberReport) []byte {
	// With groups all fields are always there: no two lists of reports give the same bytes.
	whole := slices.ContainsFunc(all, func(x *swarmv1.MemberReport) bool { return x.GetGroup() != "" })
	b := []byte("swarmd member reports 1\x00")
	if whole {
		b = []byte("swarmd member reports 2\x00")
	}
	asks := slices.ContainsFunc(all, func(x *swarmv1.MemberReport) bool { return x.GetAsks() != "" })
	if asks {
		whole, b = true, []byte("swarmd member reports 3\x00")
	}
	told := slices.ContainsFunc(all, func(x *swarmv1.MemberReport) bool { return x.GetAddress() != "" })
	if told {
		whole, asks, b = true, true, []byte("swarmd member reports 4\x00")
	}
	field := func(s string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // bounded, and what is cut off is not equal
		b = append(b, s...)
	}
	field(swarmID)
	field(node)
	for _, x := range all {
		field(x.GetAssignment())
		field(x.GetState())
		field(x.GetText())
		b = binary.BigEndian.AppendUint32(b, x.GetEpoch())
		b = binary.BigEndian.AppendUint32(b, x.GetIndex())
		b = binary.BigEndian.AppendUint32(b, uint32(x.GetCode())) //nolint:gosec // its bits
		cleaned := byte(0)
		if x.GetCleaned() {
			cleaned = 1
		}
		b = append(b, cleaned)
		if whole || len(x.GetSignature()) > 0 { // hosts of before had none
			field(string(x.GetSignature()))
		}
		if whole {
			field(x.GetGroup())
			b = binary.BigEndian.AppendUint32(b, x.GetPeers())
		}
		if asks {
			field(x.GetAsks())
		}
		if told {
			field(x.GetAddress())
			field(string(x.GetAddressSignature()))
		}
	}
	return b
}
