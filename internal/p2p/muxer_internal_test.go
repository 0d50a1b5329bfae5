package p2p

import (
	"testing"
	"time"
)

func TestHostsOfManyConnectionsAskMoreRarelyWhetherTheyLive(t *testing.T) {
	for _, c := range []struct {
		among           int64
		asked, answered time.Duration
	}{
		{1, 5 * time.Second, 30 * time.Second},
		{31, 5 * time.Second, 30 * time.Second},
		{32, 10 * time.Second, time.Minute},
		{1000, 30 * time.Second, time.Minute},
	} {
		cfg := muxerAmong(c.among).Config()
		if cfg.KeepAliveInterval != c.asked || cfg.ConnectionWriteTimeout != c.answered {
			t.Errorf("among %d: every %s, answered within %s; want %s and %s", c.among, cfg.KeepAliveInterval, cfg.ConnectionWriteTimeout, c.asked, c.answered)
		}
	}
}
