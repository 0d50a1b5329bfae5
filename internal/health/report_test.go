package health_test

import (
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/health"
)

func TestSecondJudgement(t *testing.T) {
	now := time.Now()
	report := func(left time.Duration, healthy bool, reason string) *swarmv1.NodeHealth {
		return &swarmv1.NodeHealth{
			Healthy: healthy, Reason: reason, UntilUnixMs: now.Add(time.Hour).UnixMilli(),
			SvidNotBeforeUnixMs: now.Add(left - time.Hour).UnixMilli(), SvidNotAfterUnixMs: now.Add(left).UnixMilli(),
		}
	}
	for name, c := range map[string]struct {
		h    *swarmv1.NodeHealth
		seen time.Time
		want string // "" is healthy
	}{
		"well":                      {report(50*time.Minute, true, ""), now, ""},
		"says a reason but is well": {report(50*time.Minute, true, "lies"), now, ""},
		"silent":                    {report(50*time.Minute, true, ""), now.Add(-2 * time.Minute), "for 2 minutes"},
		"stale by our clock":        {report(10*time.Minute, true, ""), now, "not renewed on schedule"},
		"expired by our clock":      {report(-time.Minute, true, ""), now, "expired"},
		"says that it is not":       {report(50*time.Minute, false, "its disk burns"), now, "its disk burns"},
		"does not say why":          {report(50*time.Minute, false, ""), now, "gives no reason"},
		"shows no certificate":      {&swarmv1.NodeHealth{Healthy: true}, now, "no identity"},
	} {
		health.Second(c.h, c.seen, now)
		if c.h.GetHealthy() != (c.want == "") || !strings.Contains(c.h.GetReason(), c.want) || (c.h.GetUntilUnixMs() == 0) == c.h.GetHealthy() ||
			c.h.GetHealthy() && c.h.GetReason() != "" || c.h.GetLeaderSeenUnixMs() != c.seen.UnixMilli() {
			t.Errorf("%s: %v, want %q", name, c.h, c.want)
		}
	}
}
