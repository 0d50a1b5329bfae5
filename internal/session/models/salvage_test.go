package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

func digestOf(b []byte) string { return merge.Combine([]merge.Digest{merge.Sum(b)}).String() }

// TestSalvage: what a killed daemon left in a weight file is kept if it is the model that was noted, and nothing else is.
func TestSalvage(t *testing.T) {
	const model = "round 07"
	digest, state := digestOf([]byte(model)), digestOf([]byte("state"))
	plain, stateful := "c/2-7-"+digest+".model", "c/2-7-"+digest+"-"+state+".model"
	for _, tt := range []struct {
		name, note, holds string
		want              string // in the copy; empty: there is none
	}{
		{"a model", plain, model, model},
		{"a model with state", stateful + "\tid.state-1", model, model + "state"},
		{"its state is gone", stateful + "\tid.state-0", model, ""},
		{"its state is nowhere", stateful, model, ""},
		{"its state is looked for elsewhere", stateful + "\t../models/other", model, ""},
		{"a part of the next one", plain, "round 08", ""},
		{"truncated", plain, "round", ""},
		{"emptied", plain, "", ""},
		{"no note", "", model, ""},
		{"a note of nothing", "c/2-7.model", model, ""},
		{"elsewhere", "../c/2-7-" + digest + ".model", model, ""},
		{"deeper", "c/d/2-7-" + digest + ".model", model, ""},
		{"nowhere", "2-7-" + digest + ".model", model, ""},
		{"another spelling", "c/02-7-" + digest + ".model", model, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			scratch, kept := filepath.Join(dir, "scratch"), filepath.Join(dir, "models")
			for _, d := range []string{scratch, kept} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, b := range map[string]string{filepath.Join(scratch, "id.state-1"): "state", filepath.Join(kept, "other"): "state", filepath.Join(dir, "slot"): tt.holds} {
				if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := os.Open(filepath.Join(dir, "slot"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for range 2 {
				round, err := models.Salvage(kept, scratch, tt.note, f)
				if (err == nil) != (tt.want != "") || err == nil && round != 7 {
					t.Errorf("kept round %d, %v", round, err)
				}
			}
			name, _, _ := strings.Cut(tt.note, "\t")
			if b, _ := os.ReadFile(filepath.Join(kept, "c", filepath.Base(name))); string(b) != tt.want {
				t.Errorf("the copy holds %q, want %q", b, tt.want)
			}
		})
	}
}
