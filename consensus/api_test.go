package consensus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
)

// proposal is the answer of these tests' stand-in for the API.
type proposal struct {
	Index    uint64
	Result   state.Result
	Rejected *state.Error
	Failed   string
}

// standIn is an API of one method: to propose.
func (sv *server) standIn() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var out proposal
		c, err := state.DecodeCommand(b)
		if err == nil {
			out.Result, err = sv.Group.Propose(r.Context(), c)
		}
		if errors.Is(err, consensus.ErrNotLeader) || errors.Is(err, consensus.ErrShutdown) {
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		if errors.As(err, &out.Rejected); err != nil {
			out.Failed = err.Error()
		}
		out.Index = sv.Index()
		_ = json.NewEncoder(w).Encode(out)
	})
}

// proposeBy proposes on the way to a leader.
func proposeBy(ctx context.Context, way http.RoundTripper, c state.Command) (proposal, error) {
	var out proposal
	b, err := state.EncodeCommand(c)
	if err != nil {
		return out, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sn/propose", bytes.NewReader(b))
	if err != nil {
		return out, err
	}
	res, err := way.RoundTrip(r)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return out, fmt.Errorf("answered with %s", res.Status)
	}
	return out, json.NewDecoder(res.Body).Decode(&out)
}

// Propose has a command proposed by the leader, as the API does, and waits until it was applied here.
func (sv *server) Propose(ctx context.Context, c state.Command) (state.Result, error) {
	var done proposal
	err := sv.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) (err error) {
		if way == nil {
			done = proposal{}
			done.Result, err = sv.Group.Propose(ctx, c)
			return err
		}
		if done, err = proposeBy(ctx, way, c); err == nil && done.Rejected != nil {
			return done.Rejected
		}
		if err == nil && done.Failed != "" {
			return errors.New(done.Failed)
		}
		return err
	})
	for err == nil && sv.Index() < done.Index {
		changed := sv.Changed()
		if sv.Index() >= done.Index {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Minute):
			err = errors.New("it is not applied here")
		}
	}
	return done.Result, err
}
