package client

import "testing"

func TestWaitSaysAReasonOnce(t *testing.T) {
	var said []string
	w := &waits{on: func(msg string) { said = append(said, msg) }}
	for _, msg := range []string{
		"SN 127.0.0.1:30304: it has expired: it was valid until 14:30:50 UTC, the clock says 14:30:50 UTC: they differ by at least 128ms",
		"SN 127.0.0.1:30304: it has expired: it was valid until 14:30:50 UTC, the clock says 14:30:52 UTC: they differ by at least 1.353s",
		"SN 127.0.0.1:30304: it has expired: it was valid until 14:30:50 UTC, the clock says 14:32:52 UTC: they differ by at least 2m2s",
		"SN 127.0.0.1:30304: connection refused",
		"",
		"SN 127.0.0.1:30304: connection refused",
	} {
		w.tell(msg)
	}
	if len(said) != 3 {
		t.Errorf("said %q, want the expiry once and the refusal before and after the call that succeeded", said)
	}
}
