package swop

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/artifacts"
	"github.com/swarmd/swarmd/internal/work/upload"
)

// leftOf keeps what members of jobs leave on a host, as much of it and as long as its owner has said. Members have working directories of their own,
// and an engine takes a name without a slash for a volume's: the folder is named in full.
func leftOf(cfg Config) (*artifacts.Store, error) {
	dir, err := filepath.Abs(filepath.Join(cfg.StateDir, "artifacts"))
	if err != nil {
		return nil, err
	}
	terms := cfg.Policy.Terms()
	s := &artifacts.Store{Dir: dir, Most: artifacts.Most, Age: artifacts.Age, Log: cfg.Log}
	if terms.Artifacts > 0 {
		s.Most = terms.Artifacts
	}
	if terms.ArtifactsAge > 0 {
		s.Age = terms.ArtifactsAge
	}
	if err := errors.Join(s.DropAll(), s.Forget()); err != nil {
		cfg.Log.Warn("can't remove old artifacts of jobs", "err", err)
	}
	return s, nil
}

// sweepEvery is how often artifacts are looked through for those that were not kept, or are too old.
const sweepEvery = time.Hour

// sweepLeft keeps what members have left that are not hosted any more, once the swarm has shown what is, and from then on, until ctx ends.
func sweepLeft(ctx context.Context, l Logs, log *slog.Logger) error {
	for ctx.Err() == nil {
		changed := l.View.Changed()
		if _, known := l.View.Hosted(); !known {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		if err := l.Left.Sweep(func() ([]work.Label, error) { return l.labels(ctx) }); err != nil && ctx.Err() == nil {
			log.Warn("can't look through the artifacts of members that have ended; it is tried again", "after", sweepEvery, "err", err)
		}
		_ = pause.For(ctx, sweepEvery)
	}
	return nil
}

// labels are the members that the swarm shows as this host's, and those of which there is something here.
func (l Logs) labels(ctx context.Context) (all []work.Label, err error) {
	hosted, _ := l.View.Hosted()
	for _, h := range hosted {
		for _, m := range h.Members {
			all = append(all, work.Label{Swarm: l.SwarmID(), Node: l.Node, Assignment: h.ID, Epoch: h.Epoch, Member: m.Index})
		}
	}
	for _, t := range l.Types {
		found, err := t.Executor.Find(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			all = append(all, f.Label)
		}
	}
	return all, nil
}

// copiesOf copies what members of jobs leave to the targets that the host's owner names.
func copiesOf(cfg Config, left *artifacts.Store) *upload.Copier {
	return &upload.Copier{Dir: filepath.Join(cfg.StateDir, "uploads"), Left: left, Target: cfg.Policy.Target, Log: cfg.Log}
}

// staying says whether a member that was found goes on, as its owner's policy is now and the swarm shows its assignment, for which it waits.
func staying(view *View, tasks work.Tasks, guard work.Guard) func(context.Context, work.Label) work.Answer {
	return func(ctx context.Context, l work.Label) work.Answer {
		changed := view.Changed()
		all, known := view.Hosted()
		for !known {
			select {
			case <-ctx.Done():
				return work.Answer{May: work.NotYet}
			case <-changed:
			}
			changed = view.Changed()
			all, known = view.Hosted()
		}
		i := slices.IndexFunc(all, func(h task.Hosted) bool { return h.ID == l.Assignment && h.Epoch == l.Epoch })
		if i < 0 { // it is over for the swarm, nothing of it runs, and its owner had let it begin: what it has left goes where that one has said
			return work.Answer{May: work.Yes}
		}
		t, err := tasks.Task(ctx, all[i].Task)
		if err != nil {
			return work.Answer{May: work.NotYet}
		}
		return guard.Stays(ctx, all[i], t)
	}
}

// artifacts hands out what members of a start of an assignment have left: pieces of an archive, what is not in it, and at the end its digest.
func (l Logs) artifacts(ctx context.Context, of artifacts.Of, emit func(logs.Line) error) error {
	digest := sha256.New()
	pieces := bufio.NewWriterSize(pieces(emit), 16<<10)
	err := l.Left.Pack(ctx, of, io.MultiWriter(digest, pieces), func(from, words string) error { return emit(logs.Line{From: from, Text: words}) })
	switch {
	case errors.Is(err, artifacts.ErrNone):
		return fmt.Errorf("%s knows of no artifacts of assignment %.64s, or not of that start: its members were not started here, or it was too long ago", l.Node, of.Assignment)
	case err == nil:
		err = pieces.Flush()
	}
	if err != nil {
		return err
	}
	return emit(logs.Line{Text: "sha256 " + hex.EncodeToString(digest.Sum(nil))})
}

// pieces writes pieces of an archive.
type pieces func(logs.Line) error

// Write implements io.Writer.
func (emit pieces) Write(b []byte) (int, error) {
	return len(b), emit(logs.Line{Data: b}) // which copies it
}
