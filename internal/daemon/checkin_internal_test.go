package daemon

import (
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestCheckinDefault(t *testing.T) {
	for _, tt := range []struct {
		name, variable string
		args           []string
		want, err      string
	}{
		{name: "none"},
		{name: "option", args: []string{"--checkin-default", "Inactive"}, want: "inactive"},
		{name: "variable", variable: "once", want: "once"},
		{name: "option before variable", variable: "once", args: []string{"--checkin-default=active"}, want: "active"},
		{name: "unknown", args: []string{"--checkin-default=never"}, err: "--checkin-default never: want snapshot, active, inactive or once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.variable != "" {
				t.Setenv("SWARM_CHECKIN_DEFAULT", tt.variable) // cli reads the process's
			}
			e, got := environment(nil), ""
			err := parse(t, e, append([]string{"run-sl"}, tt.args...), func(c *cli.Context) error {
				o, err := readSL(c, e)
				if err == nil {
					got, err = checkinDefault(o)
				}
				return err
			})
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q %v, want %q %q", got, err, tt.want, tt.err)
			}
		})
	}
}
