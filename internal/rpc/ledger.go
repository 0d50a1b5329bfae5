package rpc

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
)

// Ledger is this SN's copy of the ledger. *consensus.Group fulfils it.
type Ledger interface {
	// ReadLedger returns whole records from an offset in bytes, none at the end.
	ReadLedger(offset uint64) ([]byte, error)
	// LedgerAfter is ReadLedger from behind the first n records.
	LedgerAfter(n uint64) ([]byte, error)
	// Barrier waits until this SN has applied everything that was committed before the call.
	Barrier(ctx context.Context) error
}

var _ Ledger = (*consensus.Group)(nil)

// ledgerService copies the ledger.
type ledgerService struct{ *shared }

// ReadLedger streams this SN's ledger from an offset to where it ended when the call began, or a little further.
func (s *ledgerService) ReadLedger(ctx context.Context, req *connect.Request[swarmv1.ReadLedgerRequest], stream *connect.ServerStream[swarmv1.LedgerChunk]) error {
	if s.cfg.Ledger == nil {
		return connect.NewError(connect.CodeUnimplemented, errors.New("this SN keeps no ledger"))
	}
	end := s.cfg.Core.View().LedgerHead().Bytes
	for offset := req.Msg.GetOffset(); ; {
		data, err := s.cfg.Ledger.ReadLedger(offset)
		if errors.Is(err, consensus.ErrOffset) {
			return fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return nil
		}
		if err := stream.Send(&swarmv1.LedgerChunk{Data: data}); err != nil {
			return err
		}
		if offset += uint64(len(data)); offset >= end {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// GetEvents tells what SNs have noticed, as far as this one knows.
func (s *ledgerService) GetEvents(_ context.Context, req *connect.Request[swarmv1.GetEventsRequest]) (*connect.Response[swarmv1.GetEventsResponse], error) {
	if s.cfg.History == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this SN keeps no events"))
	}
	return connect.NewResponse(s.cfg.History.Events(req.Msg)), nil
}
