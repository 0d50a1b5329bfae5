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
