package peering

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

func TestDialledBackLogsWhatChanges(t *testing.T) {
	var log bytes.Buffer
	b := &DialledBack{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for i, x := range []struct{ answer, cause, want string }{
		{"no", "timeout", "level=WARN msg=\"an SN can't reach this node\" sn=sn-1 address=h:30305 cause=timeout remedy=\"open TCP 30305 inbound here,"},
		{"no", "timeout", ""}, // it has registered again
		{"yes", "", "level=INFO msg=\"an SN reaches this node\" sn=sn-1 address=h:30305"},
		{"not tried", "a loopback address", "level=WARN msg=\"no SN has tried to reach this node\" sn=sn-1 address=h:30305 cause=\"a loopback address\""},
		{"other key", "", "level=WARN msg=\"another node answers at this node's address\""},
	} {
		log.Reset()
		at := int64(i + 1)
		b.take(&swarmv1.DialBack{Answer: x.answer, Cause: x.cause, Address: "h:30305", Sn: "sn-1", AtUnixMs: at})
		b.take(nil)
		if got := log.String(); !strings.Contains(got, x.want) || (got == "") != (x.want == "") || b.seen() != at {
			t.Errorf("%+v: logged %q", x, got)
		}
	}
	var none *DialledBack
	none.take(&swarmv1.DialBack{Answer: "yes"})
	if none.seen() != 0 {
		t.Error("nobody has seen something")
	}
}
