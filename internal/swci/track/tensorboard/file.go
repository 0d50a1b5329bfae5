package tensorboard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prefix begins the names of event files; TensorBoard reads those of a directory in the order of their names.
const prefix = "events.out.tfevents."

// Dir is a directory of event files, which is one run to TensorBoard.
type Dir struct {
	path  string
	last  uint64 // step of the newest event
	stamp int64  // in the name of the newest file, Unix seconds
	file  *os.File
}

// OpenDir reads a directory's event files, if there is one. What was written before is left alone: Write makes a file beside, since
// TensorBoard reads nothing behind a record that was cut off. The caller closes it.
func OpenDir(path string) (*Dir, error) {
	d := &Dir{path: path}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		stamp, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.ParseInt(stamp, 10, 64); err == nil {
			d.stamp = max(d.stamp, n)
		}
		if err := d.scan(filepath.Join(path, e.Name())); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// scan notes a file's newest step.
func (d *Dir) scan(path string) error {
	return ReadFile(path, func(e *Event) {
		if len(e.Scalars) > 0 {
			d.last = max(d.last, e.Step)
		}
	})
}

// Last returns the newest step that is written; 0: none.
func (d *Dir) Last() uint64 { return d.last }

// Write appends events with newer steps than all before; others are left out.
func (d *Dir) Write(events []Event) error {
	var b []byte
	last := d.last
	for i := range events {
		if e := &events[i]; e.Step > last && len(e.Scalars) > 0 {
			b, last = appendRecord(b, e.encode()), e.Step
		}
	}
	if len(b) == 0 {
		return nil
	}
	if err := d.begin(); err != nil {
		return err
	}
	if _, err := d.file.Write(b); err != nil {
		return errors.Join(err, d.Close()) // the next one begins a file anew
	}
	d.last = last
	return nil
}

// begin makes a file, if none is open.
func (d *Dir) begin() error {
	if d.file != nil {
		return nil
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return err
	}
	d.stamp = max(time.Now().Unix(), d.stamp+1)
	f, err := os.OpenFile(filepath.Join(d.path, fmt.Sprintf("%s%010d.swarmctl", prefix, d.stamp)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(appendRecord(nil, (&Event{AtMS: time.Now().UnixMilli(), Version: fileVersion}).encode())); err != nil {
		return errors.Join(err, f.Close())
	}
	d.file = f
	return nil
}

// Close ends the file that is being written.
func (d *Dir) Close() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}

// ReadFile calls each with a file's events. What stands behind a record that is cut off or damaged is left out.
func ReadFile(path string, each func(*Event)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	return readEvents(f, each)
}

func readEvents(from io.Reader, each func(*Event)) error {
	r := bufio.NewReader(from)
	for {
		raw, err := nextRecord(r)
		if errors.Is(err, io.EOF) || errors.Is(err, errCut) {
			return nil
		}
		if err != nil {
			return err
		}
		if e, err := decodeEvent(raw); err == nil {
			each(&e)
		}
	}
}
