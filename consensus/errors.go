package consensus

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus/quorum"
)

// Sentinels that a caller decides on with errors.Is.
var (
	// ErrNoLeader is returned when the context ended while no leader could be reached: an election is under way, or there is
	// no quorum, which a *quorum.Error in its place says.
	ErrNoLeader = quorum.ErrNoLeader
	// ErrNotLeader is returned by what only the leader can do.
	ErrNotLeader = errors.New("not the leader")
	// ErrShutdown is returned once the group is stopping.
	ErrShutdown = errors.New("consensus is shut down")
	// ErrRefused is wrapped by the error of a join that will not succeed by trying again.
	ErrRefused = errors.New("join refused")
)

// fromRaft translates raft's errors into this package's.
func fromRaft(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrRaftShutdown), errors.Is(err, raft.ErrTransportShutdown):
		return ErrShutdown
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost),
		errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrAbortedByRestore):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return err
}
