package bridge_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/bridge"
)

// FuzzDecode holds that any body is either taken within the bounds or refused with a reason, on one line.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(openBody))
	f.Add([]byte(`{"session":"s","seq":1,"weight":7,"mode":"active","reason":"x\ny","loss":1e300}`))
	f.Add([]byte(`{"session":5}`))
	f.Add([]byte("{\"\x00\""))
	f.Fuzz(func(t *testing.T, b []byte) {
		open, layout, err := bridge.DecodeOpen(b)
		refused(t, err)
		if err == nil && (open.Weight < 0 || open.Weight > 100 || open.MinPeers < 1 || open.Contract == "" || layout == nil) {
			t.Errorf("took %+v", open)
		}
		sync, err := bridge.DecodeSync(b, 100)
		refused(t, err)
		if err == nil && (sync.Weight < 0 || sync.Weight > 100 || sync.Seq == 0) {
			t.Errorf("took %+v", sync)
		}
		_, err = bridge.DecodeReport(b)
		refused(t, err)
		_, err = bridge.DecodeClose(b)
		refused(t, err)
		abort, err := bridge.DecodeAbort(b)
		refused(t, err)
		if err == nil && (strings.ContainsRune(abort.Reason, '\n') || len(abort.Reason) > 1100) {
			t.Errorf("took %q", abort.Reason)
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	var r bridge.ReasonedError
	if err != nil && (!errors.As(err, &r) || r.Reason() != bridge.ReasonBadRequest || strings.ContainsAny(err.Error(), "\n\x00")) {
		t.Errorf("refusal without a clear reason: %q", err)
	}
}

// TestCounts: what a program tells of its training may be left out, and is bounded.
func TestCounts(t *testing.T) {
	sync, err := bridge.DecodeSync([]byte(`{"session":"s","seq":1,"batches":4,"samples":0,"data_samples":9007199254740992}`), 100)
	if err != nil || *sync.Batches != 4 || *sync.Samples != 0 || *sync.DataSamples != 1<<53 {
		t.Errorf("got %+v, %v", sync, err)
	}
	if sync, err = bridge.DecodeSync([]byte(`{"session":"s","seq":1}`), 100); err != nil || sync.Batches != nil || sync.Samples != nil || sync.DataSamples != nil {
		t.Errorf("nothing is told: %+v, %v", sync, err)
	}
	for _, bad := range []string{`"batches":-1`, `"samples":9007199254740993`, `"data_samples":1e30`, `"batches":"4"`} {
		if _, err := bridge.DecodeSync([]byte(`{"session":"s","seq":1,`+bad+`}`), 100); err == nil {
			t.Errorf("sync takes %s", bad)
		}
		if _, err := bridge.DecodeClose([]byte(`{"session":"s","seq":1,` + bad + `}`)); err == nil {
			t.Errorf("close takes %s", bad)
		}
	}
}
