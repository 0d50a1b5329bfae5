package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	maxFrame = 1 << 20 // bytes of one entry of an engine's log: Docker cuts at 16 KiB
	// overlap is how far back a resumed log is asked for: the two streams' entries are not exactly in order of their times,
	// and some engines round what they are asked for.
	overlap = time.Second
	// holdFor is how long an entry waits for earlier ones of the other stream, unless so many entries or bytes wait.
	holdFor     = 100 * time.Millisecond
	maxHeld     = 1024
	maxHeldSize = 1 << 20 // bytes
)

var streamNames = [...]string{1: "stdout", 2: "stderr"}

// logs reads a container's log, in several goes if need be, and gives each line to an output once. Only Time is safe for use
// beside the other methods.
//
// Docker's times have nanoseconds, and each stream's entries are in their order, those of both streams together not quite:
// they are put in order, so that all entries up to a time were passed on and none behind it. Podman's have whole seconds, but all entries come in one order: there a place in the log is a second and how many of its
// entries were taken. As a time that is the second and as many nanoseconds.
type logs struct {
	engine  *engine.Engine
	id      string
	lines   [len(streamNames)]io.WriteCloser // nil: no such stream
	streams [len(streamNames)]place          // Docker's
	all     place                            // Podman's

	delivered func(to time.Time) // told of Time when it has grown; nil: nobody is
	told      time.Time          // of what it was told last

	passing sync.Mutex // held while lines are passed on
	held    []entry    // in the order in which they will be
	size    int        // bytes held

	mu   sync.Mutex
	time time.Time // of the last line passed on
}

// entry is one that was taken and not yet passed on.
type entry struct {
	stream int
	at     time.Time
	place  time.Time // what Time is to return from then on; zero: a piece of a line
	text   []byte
	came   time.Time // by this machine's clock
}

// place is how far a log was taken.
type place struct {
	last  time.Time // of the newest entry taken
	count int       // entries taken that have this time; below zero: all that there are

	seen    int  // entries with this time met in this go
	resumed bool // this go has come to what was not taken yet
}

// newLogs starts behind the given time, which Time returned for the same container; zero: from the start.
func newLogs(e *engine.Engine, id string, out *launch.Output, since time.Time) *logs {
	l := &logs{engine: e, id: id, time: since}
	for i, name := range streamNames {
		if name != "" {
			l.lines[i] = out.Stream(name)
			l.streams[i] = place{last: since, count: -1}
		}
	}
	if !since.IsZero() {
		l.all = place{last: since.Truncate(time.Second), count: since.Nanosecond()}
	}
	return l
}

// telling has a function told of Time when it has grown.
func (l *logs) telling(delivered func(to time.Time)) *logs {
	l.delivered, l.told = delivered, l.time
	return l
}

// Time is that of the last line passed on, zero if there is none.
func (l *logs) Time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

// close passes on what is held, and last lines that have no end.
func (l *logs) close() {
	l.pass(time.Time{})
	for _, lines := range l.lines {
		if lines != nil {
			_ = lines.Close()
		}
	}
}

// read takes what the log holds that was not taken yet; passOn or close passes it on. With follow it stays until the
// container ends, the engine goes away or ctx ends. It returns nil at the log's end.
func (l *logs) read(ctx context.Context, follow bool) error {
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Timestamps: true}
	if since := l.Time(); !since.IsZero() {
		since = since.Add(-overlap)
		options.Since = strconv.FormatInt(since.Unix(), 10) + "." + fmt.Sprintf("%09d", since.Nanosecond())
	}
	body, err := l.engine.ContainerLogs(ctx, l.id, options)
	if err != nil {
		return fmt.Errorf("read container's log: %w", err)
	}
	defer body.Close()
	l.begin()
	if err := readFrames(body, l.take); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read container's log: %w", err)
	}
	return ctx.Err()
}

// readFrames calls take with each whole frame: its stream, and its bytes, which are valid until take returns. A stream that
// ends within a frame is one that ended before it.
func readFrames(r io.Reader, take func(stream int, frame []byte)) error {
	var header [8]byte // stream, three zeros, length
	var frame bytes.Buffer
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
		length := binary.BigEndian.Uint32(header[4:])
		if length > maxFrame {
			return fmt.Errorf("the engine sent an entry of %d bytes", length)
		}
		frame.Reset()
		if _, err := io.CopyN(&frame, r, int64(length)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch header[0] {
		case 1, 2:
			take(int(header[0]), frame.Bytes())
		case 3:
			return fmt.Errorf("the engine says: %s", bytes.TrimSpace(frame.Bytes()[:min(frame.Len(), 1000)]))
		}
	}
}

// begin prepares for a go, which may bring again what was taken.
func (l *logs) begin() {
	for i := range l.streams {
		l.streams[i].begin()
	}
	l.all.begin()
}

// take passes an entry on unless that was done before. It is "<time> <text>", the text being a line with its end, or a piece
// of a long one without.
func (l *logs) take(stream int, frame []byte) {
	stamp, text, _ := bytes.Cut(frame, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp[:min(len(stamp), 64)]))
	if err != nil { // not how engines write; better shown than lost
		l.hold(entry{stream: stream, text: bytes.Clone(frame), came: time.Now()})
		return
	}
	p, whole := &l.streams[stream], !bytes.ContainsRune(stamp, '.')
	if whole {
		p = &l.all
	}
	if !p.fresh(at) {
		return
	}
	e := entry{stream: stream, at: at, text: bytes.Clone(text), came: time.Now()}
	if bytes.HasSuffix(text, []byte("\n")) {
		e.place = at
		if whole {
			e.place = at.Add(time.Duration(min(p.count, int(time.Second-1))))
		}
	}
	l.hold(e)
}

// hold puts an entry among those that wait, before later ones of the other stream.
func (l *logs) hold(e entry) {
	l.passing.Lock()
	defer l.passing.Unlock()
	i := len(l.held)
	for i > 0 && !e.at.IsZero() && l.held[i-1].stream != e.stream && l.held[i-1].at.After(e.at) {
		i--
	}
	l.held = slices.Insert(l.held, i, e)
	l.size += len(e.text)
	for len(l.held) > maxHeld || l.size > maxHeldSize {
		l.passFirst()
	}
}

// passOn passes entries on in the background when they have waited, until the returned function is called.
func (l *logs) passOn() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(holdFor / 4)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case now := <-tick.C:
				l.pass(now.Add(-holdFor))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// pass passes on what came before a time, zero: all.
func (l *logs) pass(before time.Time) {
	l.passing.Lock()
	defer l.passing.Unlock()
	for len(l.held) > 0 && (before.IsZero() || l.held[0].came.Before(before)) {
		l.passFirst()
	}
	if now := l.Time(); l.delivered != nil && now.After(l.told) {
		l.told = now
		l.delivered(now)
	}
}

func (l *logs) passFirst() {
	e := l.held[0]
	l.held[0] = entry{}
	l.held = l.held[1:]
	l.size -= len(e.text)
	_, _ = l.lines[e.stream].Write(e.text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.place.After(l.time) {
		l.time = e.place
	}
}

func (p *place) begin() { p.seen, p.resumed = 0, p.last.IsZero() }

// fresh reports whether an entry of that time was not taken before, and counts it as taken.
func (p *place) fresh(at time.Time) bool {
	if !p.resumed {
		if at.Before(p.last) || at.Equal(p.last) && p.count < 0 {
			return false
		}
		if at.Equal(p.last) && p.seen < p.count {
			p.seen++
			return false
		}
		// Behind this everything is new, even if the clock was set back.
		p.resumed = true
	}
	if at.Equal(p.last) && p.count >= 0 {
		p.count++
	} else {
		p.last, p.count = at, 1
	}
	return true
}
