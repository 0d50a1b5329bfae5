package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/internal/rpc/quota"
)

const (
	// confirmTime is how long an SN tries to make sure, before a backup, that it has everything that was committed.
	confirmTime = 3 * time.Second
	// backupChunk bounds what one message carries of a backup, in bytes.
	backupChunk = 256 << 10
)

// backupService makes backups, one at a time.
type backupService struct {
	*shared

	busy chan struct{} // capacity 1: taken by the one that is being made
}

// ReadBackup streams a backup of this SN. One is made at a time: it has the encoded state in memory.
func (s *backupService) ReadBackup(ctx context.Context, _ *connect.Request[swarmv1.ReadBackupRequest], stream *connect.ServerStream[swarmv1.BackupChunk]) error {
	if s.cfg.Ledger == nil {
		return connect.NewError(connect.CodeUnimplemented, errors.New("this SN keeps no ledger"))
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		return fmt.Errorf("%w: it makes another backup just now", quota.ErrBusy)
	}
	wait, cancel := context.WithTimeout(ctx, confirmTime)
	confirmed := s.cfg.Ledger.Barrier(wait) == nil
	cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	src := backup.Source{AtMS: s.nowMS(), Confirmed: confirmed, Ledger: s.ledgerWhile(ctx)}
	src.State, src.Index = s.viewAt()
	if s.cfg.Origin != nil {
		src.Origin = s.cfg.Origin()
	}
	src.Origin.SN = s.cfg.Name
	out := bufio.NewWriterSize(chunks{stream}, backupChunk)
	if err := backup.Write(out, src); err != nil {
		return err
	}
	return out.Flush()
}

// ledgerWhile reads the ledger for as long as a call lasts.
func (s *backupService) ledgerWhile(ctx context.Context) func(offset uint64) ([]byte, error) {
	return func(offset uint64) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s.cfg.Ledger.ReadLedger(offset)
	}
}

// chunks sends what is written.
type chunks struct {
	stream *connect.ServerStream[swarmv1.BackupChunk]
}

// Write sends p in messages of bounded size.
func (c chunks) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		part := p[sent:min(sent+backupChunk, len(p))]
		if err := c.stream.Send(&swarmv1.BackupChunk{Data: part}); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}
