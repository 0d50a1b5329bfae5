package exchange_test

import (
	"bytes"
	"testing"
	"testing/synctest"
)

// TestScratchFilesDoNotShowContributions looks into the files that a stall, a method that needs whole models and an
// optimiser make: others' parameters and their means must not be there, and the merge is that of a reference, byte for byte.
func TestScratchFilesDoNotShowContributions(t *testing.T) {
	for k, text := range []string{"mean", "geomedian", "fedadam"} {
		if !row(k) { // mean
			continue
		}
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, net, _, a := severed(t, text, pass, 0)
				net.set(behind)
				tr.verify(a, s.runAll(t.Context(), a, tr.local, tr.merged))
				files := 0
				for i := range tr.spools {
					for _, f := range []*spoolFile{tr.spools[i].last, tr.spills[i].last} {
						if f == nil || len(f.writes) == 0 {
							continue
						}
						files++
						shows(t, tr, i, f)
					}
				}
				if files == 0 {
					t.Error("no file was written to")
				}
			})
		})
	}
}

// shows reports what can be seen in a file: any contribution, or, as all of these repeat every fourth byte, any sum of them.
func shows(t *testing.T, tr *training, node int, f *spoolFile) {
	t.Helper()
	for i, local := range tr.local {
		if bytes.Contains(f.b, local.b[:64]) {
			t.Errorf("a file of participant %d shows parameters of participant %d", node, i)
		}
	}
	for off := range f.writes {
		if b := f.b[off : off+64]; bytes.Equal(b[4:], b[:60]) {
			t.Errorf("a file of participant %d shows numbers at %d: % x", node, off, b[:8])
		}
	}
}
