package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/doctor"
)

func TestLinksAreJudged(t *testing.T) {
	for _, c := range []struct {
		name           string
		p              doctor.Probed
		over, answered bool
		want           doctor.Status
		says           string
	}{
		{"well", doctor.Probed{Said: true, RoundTrip: time.Millisecond, ClockKnown: true, Rate: 5}, true, true, doctor.OK, ""},
		{"reached, not measured", doctor.Probed{Said: true, Unmeasured: "busy"}, true, true, doctor.OK, ""},
		{"not yet", doctor.Probed{}, false, false, doctor.Skipped, "not yet"},
		{"its node is silent", doctor.Probed{}, true, false, doctor.Skipped, "a did not answer"},
		{"not in time", doctor.Probed{}, true, true, doctor.Warning, "not checked in time"},
		{"closed", doctor.Probed{Said: true, Problem: "no answer"}, true, true, doctor.Failed, "no answer"},
		{"not known to its node", doctor.Probed{Said: true, Problem: doctor.NotKnown}, true, true, doctor.Warning, "does not show it there"},
		{"not allowed", doctor.Probed{Said: true, Problem: "not dialled: --allow-peer"}, true, true, doctor.Skipped, "--allow-peer"},
		{"another clock", doctor.Probed{Said: true, ClockKnown: true, Ahead: -time.Hour}, true, true, doctor.Failed, "b is 1h0m0s behind that of a"},
		{"a clock that drifts", doctor.Probed{Said: true, ClockKnown: true, Ahead: 6 * time.Second}, true, true, doctor.Warning, "6s ahead of that of a"},
	} {
		l := doctor.Link{From: "a", To: "b", Address: "h:1"}
		l.Judge(c.p, c.over, c.answered)
		if l.Status != c.want || !strings.Contains(l.Detail, c.says) || l.Reached != (c.p.Said && c.p.Problem == "") {
			t.Errorf("%s: %+v", c.name, l)
		}
		if (l.Status == doctor.Failed || l.Status == doctor.Warning) != (l.Remedy != "") {
			t.Errorf("%s: remedy %q", c.name, l.Remedy)
		}
	}
}

func TestVersionsAreCompared(t *testing.T) {
	s := doctor.Swarm{Nodes: []doctor.Node{{Name: "a", Version: "v1", Status: doctor.OK}, {Name: "b", Version: "v2", Status: doctor.OK}, {Name: "c", Version: "v2", Status: doctor.OK}, {Name: "d", Status: doctor.OK}}}
	s.Settle()
	if n := s.Nodes[0]; n.Status != doctor.Warning || n.Remedy == "" || s.Nodes[1].Status != doctor.OK || s.Nodes[3].Status != doctor.OK || !s.OK {
		t.Errorf("%+v", s)
	}
	s.Nodes[1].Status = doctor.Failed
	if s.Settle(); s.OK {
		t.Error("it is well with a node that failed")
	}
}
