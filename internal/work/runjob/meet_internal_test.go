package runjob

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// TestWhatRanksBeginWith: rank 0 serves those at the members' addresses, another one waits, and a member that meets nobody begins with its command.
func TestWhatRanksBeginWith(t *testing.T) {
	const six = "fd00::1"
	for _, tt := range []struct {
		name    string
		rank    int
		meeting framework.Meeting
		all     []string
		want    string
	}{
		{"rank 0", 0, framework.Meeting{Address: "10.0.0.1", Port: 29410}, []string{"10.0.0.1", "10.0.0.2"}, "/swarmd run-rank -at=10.0.0.1:29410 -own=10.0.0.1 -within=1m0s -ranks=10.0.0.1,10.0.0.2 --"},
		{"rank 1", 1, framework.Meeting{Address: "10.0.0.1", Port: 29410}, []string{"10.0.0.1", "10.0.0.2"}, "/swarmd run-rank -at=10.0.0.1:29410 -own=10.0.0.2 -within=1m0s --"},
		{"of one host", 1, framework.Meeting{Address: "10.0.0.1", Port: 29410}, []string{"10.0.0.1", "10.0.0.1"}, "/swarmd run-rank -at=10.0.0.1:29410 -own=10.0.0.1 -within=1m0s -here --"},
		{"nobody", 1, framework.Meeting{}, []string{six, six}, ""},
		{"IPv6", 1, framework.Meeting{Address: six, Port: 29410}, []string{six, six}, "rank 0 is reached at fd00::1, and ranks of Horovod find each other at addresses of IPv4 alone: start that host's node with --host-ip and one"},
		{"no address", 1, framework.Meeting{Port: 29410}, []string{"", "10.0.0.2"}, "rank 0 has no address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := member{job: &jobfile.Job{ReadyTimeout: time.Minute}, program: framework.Program{Member: framework.Member{Rank: tt.rank}, Meeting: tt.meeting}}
			for _, a := range tt.all {
				m.placed.Members = append(m.placed.Members, framework.Place{Address: a})
			}
			words, err := meets(m, "/swarmd")
			got := strings.Join(words, " ")
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
