package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
)

// ReadBackup writes a backup of one SN to w, a file as package consensus/backup reads it, and returns how many bytes. Another SN is
// asked only if none of it has come: no two backups are the same. It ends when ctx does.
func (c Operator) ReadBackup(ctx context.Context, w io.Writer) (int64, error) {
	if err := c.ready(ctx); err != nil {
		return 0, err
	}
	var written int64
	var last error
	err := c.try(ctx, callOptions{}, func(ctx context.Context, sn string) (err error) {
		if written, err = c.readBackupAt(ctx, sn, w); err != nil && written > 0 {
			last = fmt.Errorf("after %d bytes from %s: %w", written, sn, err)
			return nil
		}
		return err
	})
	return written, errors.Join(last, err)
}

// readBackupAt reads a backup of one SN.
func (c Operator) readBackupAt(ctx context.Context, sn string, w io.Writer) (written int64, err error) {
	s, err := c.connections.stubs(sn)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(ledgerSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	req := connect.NewRequest(&swarmv1.ReadBackupRequest{})
	c.setHeaders(req.Header(), callOptions{})
	stream, err := service[swarmv1connect.BackupServiceClient](s, false).ReadBackup(ctx, req)
	if err != nil {
		return 0, whyEnded(ctx, err)
	}
	defer func() { _ = stream.Close() }() // its error was returned by Err
	for stream.Receive() {
		silence.Reset(ledgerSilence)
		if written == 0 {
			if err := c.checkSwarm(sn, stream.ResponseHeader()); err != nil {
				return 0, err
			}
		}
		n, err := w.Write(stream.Msg().GetData())
		written += int64(n)
		if err != nil {
			return max(written, 1), fmt.Errorf("write the backup: %w", err)
		}
	}
	if err := stream.Err(); err != nil {
		return written, whyEnded(ctx, err)
	}
	return written, nil
}
