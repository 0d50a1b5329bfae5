package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// withEngine starts the SWOP of host i, which has an engine of its own, with these images.
func (h *hosts) withEngine(i int, images ...string) *engine.Engine {
	h.T.Helper()
	if err := os.MkdirAll(h.Path("bucket"), 0o700); err != nil {
		h.T.Fatal(err)
	}
	return h.withPolicy(i, hostsOwn+"folders: {my-bucket: {path: "+h.Path("bucket")+", use: runs}}\n", images...)
}

func (h *hosts) withPolicy(i int, policy string, images ...string) *engine.Engine {
	h.T.Helper()
	e := enginetest.Private(h.T, enginetest.In(h.Host(20+i).Namespace()), enginetest.Images(images...))
	h.swop(i, policy, "--ml-runtime", "docker", "--docker-socket-file", strings.TrimPrefix(e.Host(), "unix://"))
	return e.Engine()
}

// ofMembers are the containers of members, also those that have ended.
func ofMembers(t *testing.T, e *engine.Engine) []container.Summary {
	t.Helper()
	found, err := e.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", engine.LabelRole+"="+engine.RoleMember))})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// boxes are hosts of a job in containers.
type boxes struct {
	*hosts

	at      []int // the hosts
	engines []*engine.Engine
}

func (h *hosts) boxes(at ...int) *boxes {
	h.T.Helper()
	b := &boxes{h, at, nil}
	for _, i := range at {
		b.engines = append(b.engines, h.withEngine(i, enginetest.TestImage))
	}
	return b
}

// strike has the first SWOP stand still and cuts the link of the second host. Containers there end with the lease, before any of the new epoch runs on
// the third host.
func (b *boxes) strike() func() {
	b.T.Helper()
	// In the first epoch it has no end, not even if it is asked to.
	const program = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1 if os.environ['SWARM_EPOCH'] == '1' else 3600)\n"
	file := b.job("boxes", program, fmt.Sprintf("image: %s\ncommand: python3 p.py\nnetwork: host\nreplicas: 3\nrestarts: 1\ngrace: %v\n", enginetest.TestImage, grace))
	follow := b.swarmctl("run", "job", "-f", file)
	follow.Sees(" has node/0") // it is placed, so that its status is known
	b.looks("job that is ready", func() bool { return strings.Count(b.says(0, "get job status boxes"), "ready  yes") == 3 })
	b.still(b.at[0], syscall.SIGSTOP)
	b.part(b.at[1], true)
	at := time.Now()
	return func() {
		b.T.Helper()
		b.looks("new epoch", func() bool { return !b.when("start", "2").IsZero() })
		b.still(b.at[0], syscall.SIGCONT)
		b.part(b.at[1], false)
		if code := follow.Exits(); code != 0 {
			b.T.Errorf("exit code %d of run job -f, want 0", code)
		}
		b.holds("run job", follow.Output(), fmt.Sprintf("swop-%d has node/0 node/1 node/2", b.at[2]), "job boxes succeeded")
		b.says(0, "get job status boxes", "end         entry_done", "restarts    1 of 1")
		over, anew := b.when("die", "1").Sub(at), b.when("start", "2").Sub(at)
		b.T.Logf("containers had ended after %v, the new epoch began after %v", over, anew)
		if over <= 0 || over >= anew || anew < settles {
			b.T.Errorf("containers had ended after %v and the new epoch began after %v, want that after %v", over, anew, settles)
		}
		for n, e := range b.engines {
			b.looks(fmt.Sprintf("clean host %d", b.at[n]), func() bool { return len(ofMembers(b.T, e)) == 0 })
		}
	}
}

// when is the time at which something happened to containers of an epoch by the engines' own records: that of the last of them, or, where they started, of the first.
func (b *boxes) when(what, epoch string) (at time.Time) {
	b.T.Helper()
	for _, e := range b.engines {
		ctx, cancel := context.WithTimeout(b.T.Context(), enginetest.Timeout)
		happened, errs := e.Events(ctx, events.ListOptions{Since: "1", Until: strconv.FormatInt(time.Now().Unix(), 10), Filters: filters.NewArgs(
			filters.Arg("event", what), filters.Arg("label", engine.LabelRole+"="+engine.RoleMember), filters.Arg("label", engine.LabelEpoch+"="+epoch),
		)})
		for err := error(nil); err == nil; {
			select {
			case m := <-happened:
				if x := time.Unix(0, m.TimeNano); at.IsZero() || x.After(at) == (what == "die") {
					at = x
				}
			case err = <-errs:
				if !errors.Is(err, io.EOF) {
					b.T.Fatal(err)
				}
			}
		}
		cancel()
	}
	return at
}
