package daemon

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/session"
)

// TestFiveTimeouts: run-sn and run-sl have no timeouts but the five, and the page has each with its variables and default.
func TestFiveTimeouts(t *testing.T) {
	five := []string{quorumFlag, stallFlag, minPeersFlag, sessionFlag, lingerFlag}
	app := newApp(environment(nil))
	rows := map[string]string{}
	for line := range strings.Lines(page(t, "reference/timeouts.md")) {
		if m := regexp.MustCompile("^\\| `--([a-z-]+)` ").FindStringSubmatch(line); m != nil {
			rows[m[1]] = line
		}
	}
	if len(rows) != len(five) {
		t.Errorf("the table has %d rows: %v", len(rows), rows)
	}
	seen := map[string][]string{}
	for _, cmd := range app.Commands {
		if cmd.Name != "run-sn" && cmd.Name != "run-sl" {
			continue
		}
		for _, f := range cmd.Flags {
			d, timed := f.(*cli.DurationFlag)
			if !timed {
				continue
			}
			seen[d.Name] = append(seen[d.Name], strings.ToUpper(strings.TrimPrefix(cmd.Name, "run-")))
			if !slices.Contains(five, d.Name) {
				t.Errorf("%s has the timeout --%s, which is a sixth: let progress decide", cmd.Name, d.Name)
			}
			for _, v := range d.EnvVars {
				if !strings.Contains(rows[d.Name], "`"+v+"`") {
					t.Errorf("the row of --%s does not name %s", d.Name, v)
				}
			}
			if d.Value != 0 && !strings.Contains(rows[d.Name], " 10 min ") {
				t.Errorf("the row of --%s does not name the default %s", d.Name, d.Value)
			}
		}
	}
	for _, name := range five {
		if !strings.Contains(rows[name], "| "+strings.Join([]string{"SN", "SL"}[2-len(seen[name]):], ", ")+" |") {
			t.Errorf("--%s is an option of %v; its row: %s", name, seen[name], rows[name])
		}
	}
}

// TestTheOriginalsVariables: they count as seconds, after the option, from the environment and among those for the program.
func TestTheOriginalsVariables(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want session.Timeouts
		err  string
	}{
		{"nothing", nil, nil, session.Timeouts{}, ""},
		{
			"seconds",
			map[string]string{"SL_WAIT_FOR_FULL_QUORUM_SECONDS": "45", "SL_LEADER_FAILURE_BASE_TIMEOUT": "600", "SL_MAKE_ME_ADMIN": "False"},
			nil,
			session.Timeouts{QuorumWait: 45 * time.Second, StallGrace: 10 * time.Minute, NoShard: true},
			"",
		},
		{
			"for the program", nil,
			[]string{"-e", "SL_WAIT_FOR_FULL_QUORUM_SECONDS=45", "--env=SL_LEADER_FAILURE_BASE_TIMEOUT=600", "-e", "SL_MAKE_ME_ADMIN=False"},
			session.Timeouts{QuorumWait: 45 * time.Second, StallGrace: 10 * time.Minute, NoShard: true},
			"",
		},
		{
			"the option wins",
			map[string]string{"SL_WAIT_FOR_FULL_QUORUM_SECONDS": "45"},
			[]string{"--full-quorum-wait=5s", "--stall-grace", "2m", "--min-peers-timeout=1h", "--make-me-admin", "false"},
			session.Timeouts{QuorumWait: 5 * time.Second, StallGrace: 2 * time.Minute, MinPeers: time.Hour, NoShard: true},
			"",
		},
		{"our variables", map[string]string{"SWARM_MIN_PEERS_TIMEOUT": "90s", "SWARM_STALL_GRACE": "3m", "SL_MAKE_ME_ADMIN": "True"}, nil, session.Timeouts{StallGrace: 3 * time.Minute, MinPeers: 90 * time.Second}, ""},
		{"0 is the default", map[string]string{"SL_WAIT_FOR_FULL_QUORUM_SECONDS": "0"}, nil, session.Timeouts{}, ""},
		{"no seconds", map[string]string{"SL_WAIT_FOR_FULL_QUORUM_SECONDS": "30s"}, nil, session.Timeouts{}, "SL_WAIT_FOR_FULL_QUORUM_SECONDS"},
		{"too long", map[string]string{"SL_LEADER_FAILURE_BASE_TIMEOUT": "4000000"}, nil, session.Timeouts{}, "SL_LEADER_FAILURE_BASE_TIMEOUT"},
		{"negative", nil, []string{"--min-peers-timeout=-1s"}, session.Timeouts{}, "--min-peers-timeout"},
		{"no wait at all", nil, []string{"--full-quorum-wait=0s"}, session.Timeouts{}, "--full-quorum-wait"},
		{"neither True nor False", map[string]string{"SL_MAKE_ME_ADMIN": "perhaps"}, nil, session.Timeouts{}, "SL_MAKE_ME_ADMIN"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env { // cli reads the process's
				t.Setenv(k, v)
			}
			e := environment(tt.env)
			var got session.Timeouts
			err := parse(t, e, append([]string{"run-sl"}, tt.args...), func(c *cli.Context) error {
				o, err := readSL(c, e)
				if err == nil {
					got, err = timeouts(o)
				}
				return err
			})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want an error with %s", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestWaitsOfAnSN: it has those of who asks for nothing.
func TestWaitsOfAnSN(t *testing.T) {
	t.Setenv("SL_LEADER_FAILURE_BASE_TIMEOUT", "120")
	e := environment(nil)
	err := parse(t, e, []string{"run-sn", "--full-quorum-wait=7s"}, func(c *cli.Context) error {
		var o start.SN
		if err := read(c, &o); err != nil {
			return err
		}
		quorum, stall, err := waits(o.Waits, nil)
		if quorum != 7*time.Second || stall != 2*time.Minute {
			t.Errorf("quorum wait %s, stall grace %s", quorum, stall)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
