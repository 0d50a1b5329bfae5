package container

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
)

// FuzzProbe judges what a container of a user's image printed as a check: whatever that is, what the user is told is plain
// lines, and a socket is one that the probe named.
func FuzzProbe(f *testing.F) {
	f.Add("swarmd-probe begin 1\nswarmd-probe socket 1:2 /target /target/docker.sock\nswarmd-probe gpu-list 1\nGPU 0: x\nMIG 1\nswarmd-probe gpu-exit 0\nswarmd-probe package ours\nswarmd-probe end 1")
	f.Add("swarmd-probe data no\nswarmd-probe owner-data 7:8\x1b[31m\nswarmd-probe program no\nswarmd-probe owner-program \u202e")
	f.Add("swarmd-probe socket\nswarmd-probe socket 99999999999999999999:x y\nswarmd-probe python-missing x\nswarmd-probe gpu-exit 9")
	spec := Spec{Platform: "PYT", GPUs: "0,MIG-1", DataDir: "/d", ModelDir: "/m", Program: "train.py", User: "1:1", Image: "i", ShmSize: 1 << 30}
	l := &Launcher{log: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		r := parseProbe(lines)
		if len(r.sockets)+len(r.gpus) > len(lines) {
			t.Errorf("%d sockets and %d GPUs of %d lines", len(r.sockets), len(r.gpus), len(lines))
		}
		l.remark(spec, r)
		for _, err := range []error{l.judgePython(spec, r), judgeFiles(spec, r), judgeGPUs(spec, r)} {
			var e *engine.Error
			var all problems
			if errors.As(err, &all) {
				for _, err := range all {
					plainly(t, err)
				}
			} else if errors.As(err, &e) {
				plainly(t, e)
			}
		}
	})
}

func plainly(t *testing.T, err error) {
	t.Helper()
	words := err.Error()
	var e *engine.Error
	if errors.As(err, &e) {
		words += e.Remedy()
	}
	if words != text.Line(words) {
		t.Errorf("not plain: %q", words)
	}
}
