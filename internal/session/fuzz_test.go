package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session"
)

// self stands in views for the session that the test opens, or for the digest of a model that others hold.
const self = "@"

// views encodes a story of what an SN shows.
func views(f *testing.F, list ...*swarmv1.ContractView) []byte {
	f.Helper()
	var b []byte
	for _, v := range list {
		text, err := proto.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// FuzzViews has an SN show a session views of its contract, whatever they say: the session goes on or ends in words, merges only
// as the participant that it is, and gives its program no model that is not of the digest that was committed.
func FuzzViews(f *testing.F) {
	mine := &swarmv1.Session{Id: self, Node: "me", Live: true, State: "open"}
	other := &swarmv1.Session{Id: "other", Node: "other", Live: true, State: "open"}
	both := []*swarmv1.Session{mine, other}
	planned := &swarmv1.Plan{Run: 1, Round: 1, Attempt: 1, Participants: []*swarmv1.Participant{{Session: self, Node: "me", Seq: 1}, {Session: "other", Node: "other"}}}
	f.Add(views(f, &swarmv1.ContractView{Name: "c", Run: 1, Sessions: both, Plan: planned},
		&swarmv1.ContractView{Name: "c", Run: 1, Sessions: both, Committed: &swarmv1.CommittedRound{Round: 1, Attempt: 1, Digest: self, Participants: []string{"other"}}}))
	f.Add(views(f, &swarmv1.ContractView{Run: 1, Sessions: both, Committed: &swarmv1.CommittedRound{Round: 7, Digest: "made up", Participants: []string{"other"}}}))
	f.Add(views(f, &swarmv1.ContractView{Run: 1, Over: true, Committed: &swarmv1.CommittedRound{Round: 1, Digest: self}, Sessions: both},
		&swarmv1.ContractView{Run: 2}))
	f.Add(views(f, &swarmv1.ContractView{Run: 1, Plan: &swarmv1.Plan{Run: 9, Round: 1, Participants: []*swarmv1.Participant{{Session: self}}}},
		&swarmv1.ContractView{Run: 1, Sessions: []*swarmv1.Session{{Id: self, State: "ended", EndReason: "x"}}}))
	f.Fuzz(func(t *testing.T, story []byte) {
		synctest.Test(t, func(t *testing.T) { tell(t, story) })
	})
}

func tell(t *testing.T, story []byte) {
	w := newSwarm()
	merged := make([]byte, 8)
	merged[0] = 7
	w.models[digestOf(merged)] = merged
	e, id, files := start(t, w)
	w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
		if p := job.Plan.Participants; job.Self < 0 || job.Self >= len(p) || p[job.Self].Session != id {
			t.Errorf("merges as %d of %v", job.Self, p)
		}
		_, _ = job.Merging.WriteAt(merged, 0)
		return &round.Done{Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf(merged)}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r, err := e.Sync(ctx, id, 1, 1)
		var why *session.Error
		switch {
		case err == nil && r.Digest != "" && digestOf(files.merged[(files.turn+1)%2].b) != r.Digest:
			t.Errorf("the program got another model than that of %s", r.Digest)
		case err != nil && ctx.Err() == nil && !errors.As(err, &why):
			t.Errorf("the program is told %v", err)
		}
	}()
	for range 6 {
		n, k := binary.Uvarint(story)
		if k <= 0 || n > uint64(len(story)-k) {
			break
		}
		v := &swarmv1.ContractView{}
		if proto.Unmarshal(story[k:k+int(n)], v) != nil {
			break
		}
		story = story[k+int(n):]
		w.show(v, id, digestOf(merged))
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
	cancel()
	<-answered
}

// show makes a view the newest, with what stands for itself put in.
func (w *swarm) show(v *swarmv1.ContractView, id, digest string) {
	for _, s := range v.Sessions {
		if s.Id == self {
			s.Id = id
		}
	}
	for _, p := range v.GetPlan().GetParticipants() {
		if p.Session == self {
			p.Session = id
		}
	}
	if c := v.Committed; c != nil && c.Digest == self {
		c.Digest = digest
	}
	w.update(func(now *round.View) {
		index := now.Index
		*now = *onwire.View(v)
		now.Index = index
	})
}
