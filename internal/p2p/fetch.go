package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// FetchProtocol is the protocol of file and model fetches.
const FetchProtocol = "/swarm/fetch/1"

const (
	maxFetchHead = 4 << 10
	fetchChunk   = 256 << 10
	// fetchStall is how long either side waits without a byte moving.
	fetchStall = 15 * time.Second
)

// FetchRequest names what is fetched.
type FetchRequest struct {
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

// Opener gives the content from the request's Offset on: a reader, which ServeFetch closes, of exactly size bytes. Its
// error is told to the peer, so it must be fit to read; the opener decides whether this peer may have it.
type Opener func(ctx context.Context, peer Peer, req FetchRequest) (content io.ReadCloser, size int64, err error)

type fetchReply struct {
	Size  int64  `json:"size"`
	Error string `json:"error,omitempty"`
}

// ServeFetch answers one stream of FetchProtocol and ends it. An error says why the fetch was not answered, which a refusal is not.
func ServeFetch(ctx context.Context, s Conn, open Opener) error {
	if err := serveFetch(ctx, s, open); err != nil {
		_ = s.Reset()
		return err
	}
	_ = s.Close()
	return nil
}

func serveFetch(ctx context.Context, s Conn, open Opener) error {
	_ = s.SetDeadline(time.Now().Add(fetchStall))
	var req FetchRequest
	if err := ReadMessage(s, maxFetchHead, &req); err != nil {
		return err
	}
	if req.Offset < 0 {
		return errors.New("negative offset")
	}
	content, size, err := open(ctx, s.Peer(), req)
	_ = s.SetDeadline(time.Now().Add(fetchStall)) // opening may have taken long
	if err != nil {
		return WriteMessage(s, fetchReply{Error: worded(err.Error())})
	}
	defer func() { _ = content.Close() }()
	if err := WriteMessage(s, fetchReply{Size: size}); err != nil {
		return err
	}
	return copyExactly(s, content, size, s.SetWriteDeadline)
}

// FetchOver fetches over a stream of FetchProtocol into dst and returns when all of it has arrived; it does not check Digest, since only
// the caller knows how the content is digested. More than maxSize bytes are refused before the first. A refusal is a *RefusedError. It
// closes the stream.
func FetchOver(ctx context.Context, s Conn, req FetchRequest, maxSize int64, dst io.Writer) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	if err := fetch(s, req, maxSize, dst); err != nil {
		_ = s.Reset()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("fetch %s from %s: %w", req.Kind, s.Peer(), err)
	}
	_ = s.Close()
	return nil
}

func fetch(s Conn, req FetchRequest, maxSize int64, dst io.Writer) error {
	_ = s.SetDeadline(time.Now().Add(fetchStall))
	if err := WriteMessage(s, req); err != nil {
		return err
	}
	_ = s.CloseWrite()
	_ = s.SetReadDeadline(time.Now().Add(fetchStall))
	return takeReply(s, maxSize, dst, s.SetReadDeadline)
}

// takeReply reads the answer to a request, and the content into dst.
func takeReply(r io.Reader, maxSize int64, dst io.Writer, deadline func(time.Time) error) error {
	var reply fetchReply
	if err := ReadMessage(r, maxFetchHead, &reply); err != nil {
		return err
	}
	if reply.Error != "" {
		return &RefusedError{Reason: worded(reply.Error)}
	}
	if reply.Size < 0 || reply.Size > maxSize {
		return fmt.Errorf("the peer announces %d bytes, at most %d are allowed", reply.Size, maxSize)
	}
	return copyExactly(dst, r, reply.Size, deadline)
}

// copyExactly copies n bytes and moves the deadline with each chunk: total time has no cap, standing still has.
func copyExactly(dst io.Writer, src io.Reader, n int64, deadline func(time.Time) error) error {
	buf := make([]byte, min(n, fetchChunk))
	for n > 0 {
		if err := deadline(time.Now().Add(fetchStall)); err != nil {
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
