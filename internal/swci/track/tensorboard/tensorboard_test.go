package tensorboard_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/track/tensorboard"
)

// event is one of a loss and of bytes; both have a short form in 32 bits.
func event(step uint64) tensorboard.Event {
	return tensorboard.Event{AtMS: 1_700_000_000_125, Step: step, Scalars: []tensorboard.Scalar{{Tag: "loss", Value: 1 / float64(uint64(1)<<step)}, {Tag: "bytes/sent", Value: float64(step * 1024)}}}
}

// written returns all events of a directory, in the order of its files.
func written(t *testing.T, dir string) (all []tensorboard.Event) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := tensorboard.ReadFile(f, func(e *tensorboard.Event) { all = append(all, *e) }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// steps are those of events with scalars.
func steps(all []tensorboard.Event) (out []uint64) {
	for _, e := range all {
		if len(e.Scalars) > 0 {
			out = append(out, e.Step)
		}
	}
	return out
}

func open(t *testing.T, dir string) *tensorboard.Dir {
	t.Helper()
	d, err := tensorboard.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDirGoesOn holds that events are read as they were written, and that a directory which is opened again takes newer steps only.
func TestDirGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "swarm")
	d := open(t, dir)
	if err := d.Write([]tensorboard.Event{event(1), event(2), event(2), {Step: 3}}); err != nil || d.Last() != 2 {
		t.Errorf("%v, last %d", err, d.Last())
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	all := written(t, dir)
	if len(all) != 3 || all[0].Version != "brain.Event:2" {
		t.Fatalf("got %+v", all)
	}
	if diff := cmp.Diff(all[1:], []tensorboard.Event{event(1), event(2)}); diff != "" {
		t.Error(diff)
	}
	d = open(t, dir)
	if d.Last() != 2 {
		t.Errorf("last %d, want 2", d.Last())
	}
	if err := d.Write([]tensorboard.Event{event(1), event(2), event(3)}); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps(written(t, dir)), []uint64{1, 2, 3}); diff != "" {
		t.Error(diff)
	}
}

// TestCutOff: a file that ends anywhere within its last event, or was damaged there, lacks that event alone, which is written into a file beside.
func TestCutOff(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "whole")
	d := open(t, whole)
	var sizes []int
	for step := range uint64(2) {
		if err := d.Write([]tensorboard.Event{event(step + 1)}); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(whole, "*"))
		raw, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(raw))
	}
	files, _ := filepath.Glob(filepath.Join(whole, "*"))
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for size := sizes[0]; size < sizes[1]; size += 7 {
		for _, damaged := range []bool{false, true} {
			dir, data := t.TempDir(), bytes.Clone(raw[:size])
			if damaged {
				data = bytes.Clone(raw)
				data[size] ^= 1
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(files[0])), data, 0o600); err != nil {
				t.Fatal(err)
			}
			d := open(t, dir)
			if err := d.Write([]tensorboard.Event{event(1), event(2), event(3)}); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(steps(written(t, dir)), []uint64{1, 2, 3}); diff != "" {
				t.Errorf("at byte %d, damaged %v: %s", size, damaged, diff)
			}
		}
	}
}

// FuzzReadFile: whatever a file holds, it is read to an end without a panic, and no event comes out that has no CRC.
func FuzzReadFile(f *testing.F) {
	dir := f.TempDir()
	d, err := tensorboard.OpenDir(dir)
	if err == nil {
		err = d.Write([]tensorboard.Event{event(1), event(2)})
	}
	if err != nil {
		f.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	raw, err := os.ReadFile(files[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, true)
	f.Add(raw[:len(raw)-3], true)
	f.Add([]byte{0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xff, 0xff}, false)
	f.Add([]byte("\x2a\x06\x0a\x04\x0a\x02ab"), false)
	f.Fuzz(func(t *testing.T, data []byte, file bool) {
		if !file { // a message in a good record
			data = tensorboard.AppendRecord(nil, data)
		}
		n := 0
		if err := tensorboard.ReadEvents(bytes.NewReader(data), func(e *tensorboard.Event) {
			n++
			for _, s := range e.Scalars {
				if len(s.Tag) > len(data) {
					t.Errorf("tag of %d bytes from %d", len(s.Tag), len(data))
				}
			}
		}); err != nil {
			t.Error(err)
		}
		if n > len(data)/16 {
			t.Errorf("%d events from %d bytes", n, len(data))
		}
	})
}
