package delta

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

func newSession(body []byte, counts [2]uint64) (*swarmv1.Session, error) {
	x := &swarmv1.Session{}
	if err := proto.Unmarshal(body, x); err != nil {
		return nil, err
	}
	x.LastSeq, x.LastRound = counts[0], counts[1]
	return x, nil
}

func newParticipant(body []byte, counts [2]uint64) (*swarmv1.Participant, error) {
	x := &swarmv1.Participant{}
	if err := proto.Unmarshal(body, x); err != nil {
		return nil, err
	}
	x.Seq = counts[0]
	return x, nil
}

var errNotText = errors.New("a name is not UTF-8")

func newName(body []byte, _ [2]uint64) (string, error) {
	if !utf8.Valid(body) {
		return "", errNotText
	}
	return string(body), nil
}

// advanceSessions replaces each session by one with the counts beside it. Views that were given out keep theirs. Fields are
// copied one by one: reflection takes ten times as long.
func advanceSessions(list []item[*swarmv1.Session]) {
	made := make([]swarmv1.Session, len(list))
	for i := range list {
		x, to := list[i].msg, &made[i]
		to.Id, to.Node, to.PeerId, to.Host, to.FsPort, to.Live = x.Id, x.Node, x.PeerId, x.Host, x.FsPort, x.Live
		to.State, to.CheckinMode, to.Weight, to.EndReason, to.ExitCode = x.State, x.CheckinMode, x.Weight, x.EndReason, x.ExitCode
		to.Progress, to.ExpectedBase, to.Run, to.SpiffeId, to.Isolation = x.Progress, x.ExpectedBase, x.Run, x.SpiffeId, x.Isolation
		to.NoShard, to.SkippedSeq, to.Proof = x.NoShard, x.SkippedSeq, x.Proof
		to.CheckinFrom, to.ClosedRounds, to.Ranks = x.CheckinFrom, x.ClosedRounds, x.Ranks
		to.LastSeq, to.LastRound = list[i].counts[0], list[i].counts[1]
		list[i].msg = to
	}
}

// advanceParticipants does the same with participants.
func advanceParticipants(list []item[*swarmv1.Participant]) {
	made := make([]swarmv1.Participant, len(list))
	for i := range list {
		x, to := list[i].msg, &made[i]
		to.Session, to.Node, to.PeerId, to.Host, to.FsPort, to.Weight = x.Session, x.Node, x.PeerId, x.Host, x.FsPort, x.Weight
		to.ShardFirst, to.ShardLeaves, to.SpiffeId, to.Factor, to.MoreShards = x.ShardFirst, x.ShardLeaves, x.SpiffeId, x.Factor, x.MoreShards
		to.Seq = list[i].counts[0]
		list[i].msg = to
	}
}
