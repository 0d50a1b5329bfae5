// Package fetch is how committed models are fetched from the nodes that hold them, over streams of internal/p2p.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/text"
)

// Protocol is the protocol of file and model fetches.
const Protocol = "/swarm/fetch/1"

const (
	maxHead    = 4 << 10
	chunkBytes = 256 << 10
	// stall is how long either side waits without a byte moving.
	stall = 15 * time.Second
)

// Request names what is fetched.
type Request struct {
	// Kind is what is meant: "model" is the only one yet.
	Kind string `json:"kind"`
	// Contract, Run and Round name a model.
	Contract string `json:"contract,omitempty"`
	Run      uint64 `json:"run,omitempty"`
	Round    uint64 `json:"round,omitempty"`
	// Digest is the hex digest that the content must have; the receiver checks it, the server may choose by it.
	Digest string `json:"digest,omitempty"`
	// State is the hex digest of the optimiser state that is asked for with a model, and comes directly behind it; empty: the
	// model alone.
	State string `json:"state,omitempty"`
	// Offset is the byte to begin at, to go on after a broken fetch.
	Offset int64 `json:"offset,omitempty"`
}

// Opener gives the content from the request's Offset on: a reader, which Answer closes, of exactly size bytes. Its
// error is told to the peer, so it must be fit to read; the opener decides whether this peer may have it.
type Opener func(ctx context.Context, peer p2p.Peer, req Request) (content io.ReadCloser, size int64, err error)

type reply struct {
	Size  int64  `json:"size"`
	Error string `json:"error,omitempty"`
}

// Answer answers one stream of Protocol and ends it. An error says why the fetch was not answered, which a refusal is not.
func Answer(ctx context.Context, s p2p.Conn, open Opener) error {
	if err := answer(ctx, s, open); err != nil {
		_ = s.Reset()
		return err
	}
	_ = s.Close()
	return nil
}

func answer(ctx context.Context, s p2p.Conn, open Opener) error {
	_ = s.SetDeadline(time.Now().Add(stall))
	var req Request
	if err := p2p.ReadMessage(s, maxHead, &req); err != nil {
		return err
	}
	if req.Offset < 0 {
		return errors.New("negative offset")
	}
	content, size, err := open(ctx, s.Peer(), req)
	_ = s.SetDeadline(time.Now().Add(stall)) // opening may have taken long
	if err != nil {
		return p2p.WriteMessage(s, reply{Error: worded(err.Error())})
	}
	defer func() { _ = content.Close() }()
	if err := p2p.WriteMessage(s, reply{Size: size}); err != nil {
		return err
	}
	return copyExactly(s, content, size, s.SetWriteDeadline)
}

// Over fetches over a stream of Protocol into dst and returns when all of it has arrived; it does not check Digest, since only
// the caller knows how the content is digested. More than maxSize bytes are refused before the first. A refusal is a *p2p.RefusedError. It
// closes the stream.
func Over(ctx context.Context, s p2p.Conn, req Request, maxSize int64, dst io.Writer) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := receive(s, req, maxSize, dst); err != nil {
		_ = s.Reset()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("fetch %s from %s: %w", req.Kind, s.Peer(), err)
	}
	_ = s.Close()
	return nil
}

func receive(s p2p.Conn, req Request, maxSize int64, dst io.Writer) error {
	_ = s.SetDeadline(time.Now().Add(stall))
	if err := p2p.WriteMessage(s, req); err != nil {
		return err
	}
	_ = s.CloseWrite()
	_ = s.SetReadDeadline(time.Now().Add(stall))
	return takeReply(s, maxSize, dst, s.SetReadDeadline)
}

// takeReply reads the answer to a request, and the content into dst.
func takeReply(r io.Reader, maxSize int64, dst io.Writer, deadline func(time.Time) error) error {
	var answer reply
	if err := p2p.ReadMessage(r, maxHead, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return &p2p.RefusedError{Reason: worded(answer.Error)}
	}
	if answer.Size < 0 || answer.Size > maxSize {
		return fmt.Errorf("the peer announces %d bytes, at most %d are allowed", answer.Size, maxSize)
	}
	return copyExactly(dst, r, answer.Size, deadline)
}

// copyExactly copies n bytes and moves the deadline with each chunk: total time has no cap, standing still has.
func copyExactly(dst io.Writer, src io.Reader, n int64, deadline func(time.Time) error) error {
	buf := make([]byte, min(n, chunkBytes))
	for n > 0 {
		if err := deadline(time.Now().Add(stall)); err != nil {
			return err
		}
		chunk := buf[:min(n, int64(len(buf)))]
		got, err := io.ReadFull(src, chunk)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if _, err := dst.Write(chunk[:got]); err != nil {
			return err
		}
		n -= int64(got)
	}
	return nil
}

// worded makes a peer's words safe to print and log: one line, valid UTF-8, bounded.
func worded(s string) string { return strings.TrimSpace(text.Cut(text.Printable(s, ' '), 512)) }
