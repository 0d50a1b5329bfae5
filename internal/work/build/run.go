package build

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/build"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/dockerfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

const (
	buildLimit = 2 * time.Hour // of a build, unless the owner gives less: the original's operators wait as long
	period     = 100_000       // microseconds by which CPUs are shared out
	maxMessage = 1 << 20       // bytes of one of the engine's
	maxLine    = 1 << 10       // bytes that are kept of a line
	keptLines  = 20
	unknownErr = -1
	ownFile    = ".swarmd-build"

	answerLimit = 5 * time.Second // of an engine that may have ended a step as it was stopped
)

// build builds an image, and returns with what code the build ended.
func (b *Builder) build(ctx context.Context, e *engine.Engine, o *order, j work.Job) (work.Status, error) {
	pins, err := b.pins(ctx, e, o, j)
	if err != nil {
		return work.Status{}, err
	}
	limit := buildLimit
	if h := time.Duration(b.cfg.Terms.Hours * float64(time.Hour)); h > 0 {
		limit = min(limit, h)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the build of task %s was not done after %v, and was ended: make it smaller, or raise hours under limits in the host's policy", j.Task.Name, limit))
	defer stop()
	go b.room.Watch(ctx, e, cancel)
	s, err := b.run(ctx, e, o, j, o.file.Write(pins, b.marks()))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// pins are the IDs of all images that a build starts from. Those that are not there are fetched.
func (b *Builder) pins(ctx context.Context, e *engine.Engine, o *order, j work.Job) (map[string]string, error) {
	pins := map[string]string{}
	for _, name := range o.file.Bases() {
		id, err := b.base(ctx, e, j, name)
		if err == nil && id == "" {
			if err = b.cfg.Images.Fetch(ctx, e, name); err == nil {
				id, err = b.base(ctx, e, j, name)
			}
		}
		if err == nil && id == "" {
			err = fmt.Errorf("image %.200s was fetched, and is gone: assign the task again", name)
		}
		if err != nil {
			return nil, err
		}
		pins[name] = id
	}
	return pins, nil
}

// run has the engine build.
func (b *Builder) run(ctx context.Context, e *engine.Engine, o *order, j work.Job, steps string) (s work.Status, err error) {
	files := io.NopCloser(strings.NewReader(""))
	if err := o.checkVolume(ctx, e, j); err != nil {
		return s, err
	}
	if o.volume != "" {
		v, err := volume.Open(ctx, e, o.volume, true, volume.Labels(j.Label, engine.RoleBuild, b.cfg.Scope))
		if err != nil {
			return s, err
		}
		defer func() {
			if closed := v.Close(ctx); err == nil {
				err = closed
			}
		}()
		if files, err = v.Files(ctx); err != nil {
			return s, err
		}
	}
	defer files.Close()
	sent, send := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(send, files, o.volume, steps, contextLimits)
		_ = send.CloseWithError(err) // a pipe's never fails
		packed <- err
	}()
	b.cfg.Log.InfoContext(ctx, "building an image", "image", o.outcome, "assignment", j.Assignment.ID, "task", j.Task.Name, "network", b.network())
	res, err := e.ImageBuild(ctx, sent, b.options(j))
	_ = sent.Close() // what the engine does not take any more is not packed
	if wrong := <-packed; wrong != nil && !errors.Is(wrong, io.ErrClosedPipe) {
		err = wrong
	} else if err != nil {
		err = engine.Explain(fmt.Errorf("build for task %s: %w", j.Task.Name, err))
	}
	if err != nil {
		if res.Body != nil {
			_ = res.Body.Close()
		}
		return s, wentAway(err)
	}
	defer res.Body.Close()
	s, err = b.follow(ctx, e, res.Body, j)
	return s, wentAway(err)
}

// wentAway is the error of a build that was begun. If the engine went away that is not tried again: the build, which is foreign code, may be
// why, and would take the engine down each time.
func wentAway(err error) error {
	if !engine.OutOfReach(err) {
		return err
	}
	return &work.Lasting{Words: "this host's container engine went away while it built, which is not done again, as the build may be why: see that the engine answers (docker info), and assign the task again", Err: err}
}

// noGPUs is a variable by which NVIDIA's runtime, where it is an engine's default, gives a container no GPUs. Without it images ask for them.
const noGPUs = "NVIDIA_VISIBLE_DEVICES=void"

// marks are what a build's steps have beside those of the task.
func (b *Builder) marks() dockerfile.Marks {
	m := dockerfile.Marks{Label: b.mark()}
	if b.cfg.Terms.NoGPUs {
		m.Env = noGPUs
	}
	return m
}

func (b *Builder) network() string {
	if b.cfg.Terms.Network {
		return "default"
	}
	return "none"
}

// options are those of a build. It has no passwords, and nothing of the host.
func (b *Builder) options(j work.Job) build.ImageBuildOptions {
	o := build.ImageBuildOptions{
		Dockerfile: ownFile, Remove: true, ForceRemove: true, NetworkMode: b.network(), Labels: b.outcomeLabels(j), BuildArgs: map[string]*string{},
		Memory: b.cfg.Terms.Memory, MemorySwap: b.cfg.Terms.Memory,
	}
	if cpus := b.cfg.Terms.CPUs; cpus > 0 {
		o.CPUPeriod, o.CPUQuota = period, int64(cpus*period)
	}
	for _, v := range b.cfg.Proxies {
		o.BuildArgs[v.Name] = &v.Value
	}
	return o
}

// message is one of those that an engine sends while it builds.
type message struct {
	Stream      string `json:"stream"`
	Error       string `json:"error"`
	ErrorDetail struct {
		Code int32 `json:"code"`
	} `json:"errorDetail"`
}

// cutOff reports whether a build failed of what an engine does that is stopped in order: it ends the steps, and may still say so.
func (m message) cutOff() bool {
	return m.ErrorDetail.Code == 128+int32(syscall.SIGTERM) || m.ErrorDetail.Code == 128+int32(syscall.SIGKILL) || strings.Contains(m.Error, context.Canceled.Error())
}

// stillAnswers reports whether an engine has not gone away.
func stillAnswers(ctx context.Context, e *engine.Engine) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err := e.Ping(ctx)
	return err == nil
}

// follow reads an engine's messages to their end. A build that fails ends its member with the last lines.
func (b *Builder) follow(ctx context.Context, e *engine.Engine, stream io.Reader, j work.Job) (work.Status, error) {
	log := b.cfg.Log.With("assignment", j.Assignment.ID, "task", j.Task.Name)
	var last []string
	messages := bufio.NewScanner(stream)
	messages.Buffer(nil, maxMessage)
	for messages.Scan() {
		var m message
		if err := json.Unmarshal(messages.Bytes(), &m); err != nil {
			if messages.Err() != nil { // half of one, before the engine went away
				break
			}
			return work.Status{}, fmt.Errorf("the engine's answer can't be read: %w", err)
		}
		if m.Error != "" {
			if m.cutOff() && !stillAnswers(ctx, e) {
				return work.Status{}, fmt.Errorf("follow the build of task %s: %s: %w", j.Task.Name, text.Cut(text.Line(m.Error), maxLine), engine.ErrSilent)
			}
			return b.failed(last, m), nil
		}
		for l := range strings.SplitSeq(m.Stream, "\n") {
			l = text.Cut(text.Line(strings.ToValidUTF8(l, "\uFFFD")), maxLine)
			switch {
			case strings.TrimSpace(l) == "", strings.HasPrefix(l, " --->"), strings.HasPrefix(l, "Removing intermediate container "):
				continue // the engine's own bookkeeping
			case strings.HasPrefix(l, "Step "):
				log.InfoContext(ctx, "a step of the build begins", "step", l)
			default:
				log.DebugContext(ctx, "a build says", "line", l)
			}
			last = append(last[max(0, len(last)+1-keptLines):], l)
		}
	}
	if err := ctx.Err(); err != nil {
		return work.Status{}, err
	}
	if err := messages.Err(); err != nil {
		return work.Status{}, engine.Explain(fmt.Errorf("follow the build of task %s: %w", j.Task.Name, err))
	}
	return work.Status{State: task.Exited}, nil
}

// failed is how a build ended that did not come to its end. What its steps printed may be data, and why they failed is not.
func (b *Builder) failed(last []string, m message) work.Status {
	s := work.Status{State: task.Exited, Code: m.ErrorDetail.Code}
	if s.Code == 0 {
		s.Code = unknownErr
	}
	var known *engine.Error
	why := text.Line(m.Error)
	if errors.As(engine.Explain(errors.New(why)), &known) && known.Help != "" {
		why += ": " + known.Help
	}
	s.Said, s.Text = work.LastLines(last), why
	if !b.cfg.Terms.Network {
		s.Text = "the build had no network, which the host's policy gives by networks: [bridge] under limits: " + why
	}
	s.Text = work.LastLines([]string{s.Text})
	return s
}
