package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/text"
)

// answer does one call: body in, JSON value or error out.
type answer func(ctx context.Context, body []byte) (any, error)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, path string, limit int64, fn answer) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.calls.Add(1)
			defer s.calls.Done()
			if r.Method != method {
				w.Header().Set("Allow", method)
				s.reply(w, nil, &Error{ReasonMethod, fmt.Sprintf("%s does not take %s", path, r.Method), "use " + method})
				return
			}
			body, err := readBody(w, r, limit)
			var v any
			if err == nil {
				v, err = fn(r.Context(), body)
			}
			s.reply(w, v, err)
		})
	}
	handle(http.MethodPost, wire.PathSession, MaxOpenBody, s.serveOpen)
	handle(http.MethodPost, wire.PathSync, MaxOtherBody, s.serveSync)
	handle(http.MethodPost, wire.PathReport, MaxOtherBody, s.serveReport)
	handle(http.MethodPost, wire.PathClose, MaxOtherBody, s.serveClose)
	handle(http.MethodPost, wire.PathAbort, MaxOtherBody, s.serveAbort)
	handle(http.MethodGet, wire.PathStatus, MaxOtherBody, func(context.Context, []byte) (any, error) { return s.cfg.Status(), nil })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, nil, &Error{ReasonNotFound, "no such route", "see docs/reference/bridge.md for the routes"})
	})
	return mux
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readLimit))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	// A long poll follows: the connection must be able to stay silent.
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Error{ReasonTooLarge, fmt.Sprintf("body is longer than %d bytes", limit), "send fewer or shorter fields"}
	case err != nil:
		return nil, badRequest("read body: %s", text.Clip(lineOf(err), maxText))
	}
	return body, nil
}

func (s *Server) reply(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		var body wire.ErrorResponse
		status, body = errorBody(err)
		v = body
		if status == http.StatusInternalServerError {
			s.cfg.Log.Error("a program's call failed", "err", err)
		}
	}
	b, err := json.Marshal(v)
	if err != nil { // Only a status value can be beyond JSON.
		s.cfg.Log.Error("could not encode the answer to a program", "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":{"reason":"INTERNAL","message":"answer can not be encoded","remedy":"see the node's log"}}`)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that hung up asks again
}

func (s *Server) serveOpen(ctx context.Context, body []byte) (any, error) {
	req, form, err := DecodeOpen(body)
	if err != nil {
		return nil, err
	}
	layout := form.Digest().String()
	if err := s.beginOpen(ctx, layout, req.Verify); err != nil {
		return nil, err
	}
	res, err := s.cfg.Handler.Open(ctx, req, form)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening = false
	if err != nil {
		return nil, err
	}
	s.open = &openSession{id: res.Session, layout: layout, weight: req.Weight, maxWeight: maxWeight(req.Weights)}
	s.clients.use(ctx, res.Session)
	return wire.OpenResponse{
		Session: res.Session, Local: res.Local, Bytes: form.Bytes(), LayoutDigest: layout,
		Offsets: form.Offsets(), Peer: res.Peer, APIVersion: wire.APIVersion,
	}, nil
}

// beginOpen refuses a second session, unless the program that has the first one is gone (it was started again by hand)
// and has the same layout. The program that has it may itself open anew.
func (s *Server) beginOpen(ctx context.Context, layout string, verify bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening {
		return &Error{ReasonSessionOpen, "another program is opening a session at this node", "run one program per node"}
	}
	if o := s.open; o != nil && s.liveLocked() {
		switch {
		case s.clients.present(o.id, connOf(ctx)):
			return &Error{
				ReasonSessionOpen, fmt.Sprintf("session %s is open at this node and its program is connected", o.id),
				"run one program per node, or stop the other one first",
			}
		case o.layout != layout:
			return &Error{
				ReasonSessionOpen, fmt.Sprintf("session %s is open at this node with another layout (%.16s…, this is %.16s…)", o.id, o.layout, layout),
				"end it first: POST /v1/abort with its session id, or restart the node",
			}
		}
	}
	s.opening, s.verify = true, verify
	return nil
}

func (s *Server) liveLocked() bool {
	return s.cfg.Live == nil || s.cfg.Live(s.open.id)
}

func (s *Server) serveSync(ctx context.Context, body []byte) (any, error) {
	req, err := DecodeSync(body, s.weights())
	if err != nil {
		return nil, err
	}
	s.clients.use(ctx, req.Session)
	poll, cancel := context.WithTimeout(ctx, s.cfg.LongPoll)
	defer cancel()
	res, err := s.cfg.Handler.Sync(poll, req)
	return s.polled(ctx, res, err)
}

func (s *Server) serveClose(ctx context.Context, body []byte) (any, error) {
	req, err := DecodeClose(body, s.weights())
	if err != nil {
		return nil, err
	}
	s.clients.use(ctx, req.Session)
	poll, cancel := context.WithTimeout(ctx, s.cfg.LongPoll)
	defer cancel()
	res, err := s.cfg.Handler.Close(poll, req)
	if err == nil {
		s.forget(req.Session)
	}
	return s.polled(ctx, res, err)
}

// polled makes the answer of a blocking call. ctx is the request's, which outlives the long poll's.
func (s *Server) polled(ctx context.Context, res wire.SyncResponse, err error) (any, error) {
	out := res
	out.SHA256, out.Participants, out.Warnings = s.sumOf(res.Slot), append([]string{}, res.Participants...), append([]string{}, res.Warnings...)
	var pending *PendingError
	switch {
	case errors.As(err, &pending):
		out.Pending, out.Waiting = true, pending.Waiting
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		out.Pending = true
		out.Waiting, _ = s.cfg.Status()["waiting"].(string)
	case err != nil:
		return nil, err
	}
	return out, nil
}

func (s *Server) serveReport(ctx context.Context, body []byte) (any, error) {
	req, err := DecodeReport(body)
	if err != nil {
		return nil, err
	}
	s.clients.use(ctx, req.Session)
	return struct{}{}, s.cfg.Handler.Report(ctx, req)
}

func (s *Server) serveAbort(ctx context.Context, body []byte) (any, error) {
	req, err := DecodeAbort(body)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Handler.Abort(ctx, req); err != nil {
		return nil, err
	}
	s.forget(req.Session)
	return struct{}{}, nil
}

func (s *Server) weights() Weights {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return Weights{maxShare, maxShare}
	}
	return Weights{s.open.weight, s.open.maxWeight}
}

// forget lets the next session be opened.
func (s *Server) forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil && s.open.id == session {
		s.open = nil
	}
}
