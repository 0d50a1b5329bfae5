package logboard

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
)

// SN is what the service needs of the SN that serves it.
type SN interface {
	// View returns the state as applied here. It is immutable.
	View() *state.State
	// Speaker returns the name of the node that a call speaks for.
	Speaker(ctx context.Context) string
	// Asker returns who calls.
	Asker(ctx context.Context) (identity.ID, error)
}

// Service implements swarmv1connect.LogServiceHandler.
type Service struct {
	sn    SN
	board *Board
	own   *Own
}

// NewService returns the service of an SN; own hands out its own log, nil: nobody does.
func NewService(sn SN, board *Board, own *Own) *Service { return &Service{sn, board, own} }

// ReadLogs has a host asked, and shows what has come of it.
func (s *Service) ReadLogs(ctx context.Context, req *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	view := s.sn.View()
	name := req.Msg.GetPart().GetNode()
	n := view.Nodes[name]
	switch {
	case n == nil || n.Role == string(identity.RoleSN):
		return nil, unknown(name)
	case req.Msg.GetHave() == 0 && (n.Left() || !n.Live): // one that goes on is heard of, or silent
		return nil, &state.Error{
			Reason: state.ReasonNodeDead, Message: fmt.Sprintf("node %.128q is not alive, and its log is on its own host", name),
			Remedy: "see why: swarmctl get health; on its host: swarmctl collect logs",
		}
	}
	return s.read(ctx, s.board, view.SwarmID, req.Msg)
}

// ReadOwnLog has this SN hand out its own log.
func (s *Service) ReadOwnLog(ctx context.Context, req *connect.Request[swarmv1.ReadLogsRequest]) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	if name := req.Msg.GetPart().GetNode(); s.own == nil || s.own.Node != name || req.Msg.GetPart().GetAssignment() != "" {
		return nil, unknown(name)
	}
	res, err := s.read(ctx, s.own.Board, s.sn.View().SwarmID, req.Msg)
	return res, err
}

func unknown(name string) error {
	return &state.Error{Reason: state.ReasonNodeUnknown, Message: fmt.Sprintf("no node %.128q hands out logs here", name), Remedy: "see: swarmctl list nodes"}
}

// read holds the request to what was signed. Who has signed it the host proves.
func (s *Service) read(ctx context.Context, board *Board, swarmID string, m *swarmv1.ReadLogsRequest) (*connect.Response[swarmv1.ReadLogsResponse], error) {
	by, err := s.sn.Asker(ctx)
	if err != nil {
		return nil, err
	}
	signed, err := logs.PartOf(m.GetOrder())
	if err == nil && !proto.Equal(signed, m.GetPart()) {
		err = fmt.Errorf("another request than this was signed")
	}
	if err != nil {
		return nil, &state.Error{Reason: state.ReasonBadCommand, Message: "a request for a log: " + err.Error(), Remedy: "use a swarmctl of the SNs' version"}
	}
	res, err := board.Read(ctx, by.String(), logs.ID(m.GetOrder(), swarmID), m)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}

// SendLogs takes what a host hands out.
func (s *Service) SendLogs(ctx context.Context, req *connect.Request[swarmv1.SendLogsRequest]) (*connect.Response[swarmv1.SendLogsResponse], error) {
	res, err := s.board.Send(s.sn.Speaker(ctx), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}
