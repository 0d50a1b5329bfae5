package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
)

var streamNames = [...]string{1: "stdout", 2: "stderr"}

// logs reads a container's log, in several goes if need be, and gives each line to an output once. Only Time is safe for use
// beside the other methods.
type logs struct {
	engine  *engine.Engine
	id      string
	streams [len(streamNames)]*logStream

	mu   sync.Mutex
	time time.Time // of the last line passed on
}

// logStream is stdout or stderr. Entries of one stream are in order, those of both are not quite.
type logStream struct {
	lines io.WriteCloser
	last  time.Time // of the newest entry taken
	count int       // entries taken that have this time; below zero: all that there are

	seen    int  // entries with this time met in this go
	resumed bool // this go has come to what was not taken yet
}

// newLogs starts behind the given time, zero: from the start.
func newLogs(e *engine.Engine, id string, out *launch.Output, since time.Time) *logs {
	l := &logs{engine: e, id: id, time: since}
	for i, name := range streamNames {
		if name == "" {
			continue
		}
		s := &logStream{lines: out.Stream(name), last: since}
		// A whole second is an engine's that knows no parts of it: rather lines twice than never.
		if since.Nanosecond() != 0 {
			s.count = -1
		}
		l.streams[i] = s
	}
	return l
}

// Time is that of the last line passed on, zero if there is none.
func (l *logs) Time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

// close passes on last lines that have no end.
func (l *logs) close() {
	for _, s := range l.streams {
		if s != nil {
			_ = s.lines.Close()
		}
	}
}

// read takes what the log holds that was not taken yet. With follow it stays until the container ends, the engine goes away
// or ctx ends. It returns nil at the log's end.
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
	for _, s := range l.streams {
		if s != nil {
			s.begin()
		}
	}
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

// take passes an entry on unless that was done before. It is "<time> <text>", the text being a line with its end, or a piece
// of a long one without.
func (l *logs) take(stream int, frame []byte) {
	s := l.streams[stream]
	stamp, text, _ := bytes.Cut(frame, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp[:min(len(stamp), 64)]))
	if err != nil { // not how engines write; better shown than lost
		_, _ = s.lines.Write(frame)
		return
	}
	if !s.fresh(at) {
		return
	}
	_, _ = s.lines.Write(text)
	if bytes.HasSuffix(text, []byte("\n")) {
		l.mu.Lock()
		if at.After(l.time) {
			l.time = at
		}
		l.mu.Unlock()
	}
}

// begin prepares for a go, which may bring again what was taken.
func (s *logStream) begin() { s.seen, s.resumed = 0, s.last.IsZero() }

// fresh tells whether an entry of that time was not taken before, and counts it as taken.
func (s *logStream) fresh(at time.Time) bool {
	if !s.resumed {
		if at.Before(s.last) || at.Equal(s.last) && s.count < 0 {
			return false
		}
		if at.Equal(s.last) && s.seen < s.count {
			s.seen++
			return false
		}
		// Behind this everything is new, even if the clock was set back.
		s.resumed = true
	}
	if at.Equal(s.last) && s.count >= 0 {
		s.count++
	} else {
		s.last, s.count = at, 1
	}
	return true
}
