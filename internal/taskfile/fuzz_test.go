package taskfile_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/taskfile"
)

// Whatever a file holds: it is read or refused, lint refuses what is refused, and a task that is read has a definition that says the same.
func FuzzTask(f *testing.F) {
	for _, raw := range testdata(f, "tasks") {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		task, _, err := taskfile.ReadTask("f", raw)
		if err != nil {
			if len(taskfile.LintTask("f", raw)) == 0 {
				t.Fatalf("lint finds nothing, reading: %v", err)
			}
			return
		}
		if slices.ContainsFunc(task.Definition, func(c byte) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f }) || !utf8.Valid(task.Definition) {
			t.Fatalf("the definition is no plain text: %q", task.Definition)
		}
		body, err := taskfile.ReadBody(task.Type, task.Definition)
		if task.Unfilled() != nil {
			return
		}
		if d := cmp.Diff(task.Body, body); err != nil || d != "" {
			t.Fatalf("the definition reads as another body: %v\n%s\n%s", err, task.Definition, d)
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, raw := range testdata(f, "tasks") {
		if task, _, err := taskfile.ReadTask("f", raw); err == nil {
			f.Add(uint8(slices.Index(taskfile.Types, task.Type)), task.Definition)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		taskType := taskfile.Types[int(kind)%len(taskfile.Types)]
		if body, err := taskfile.ReadBody(taskType, raw); (body == nil) != (err != nil) || err == nil && body.Type() != taskType {
			t.Fatalf("got %v, %v", body, err)
		}
	})
}

func FuzzProfile(f *testing.F) {
	for _, raw := range testdata(f, "profiles") {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, _, err := taskfile.ReadProfile("f", raw)
		if found := taskfile.LintProfile("f", raw); err != nil && len(found) == 0 {
			t.Fatalf("lint finds nothing, reading: %v", err)
		}
		if err == nil && (p.Peers() == 0 || p.GroupName == "" && p.Unfilled() == nil) {
			t.Fatalf("a profile without peers or group: %+v", p)
		}
	})
}
