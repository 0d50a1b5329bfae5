package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// TestSeveralSNs: by option, variable and file, with and without ports.
func TestSeveralSNs(t *testing.T) {
	own := []string{"[::1]:7", "sn2:30304", "sn3:9"}
	for args, want := range map[string][]string{
		"--sn-ip [::1]:7 --sn-ip sn2 --sn-ip=sn3:9":           own,
		"--sn-ip [::1]:7,sn2 --sn-ip sn3:9,":                  own,
		"--sn-ip ::1 --sn-ip 10.0.0.1 --sn-api-port 5":        {"[::1]:5", "10.0.0.1:5"},
		"--sn-api-port 5 --sn-ip [2001:db8::1] --sn-ip sn1:6": {"[2001:db8::1]:5", "sn1:6"},
	} {
		if got := slSNs(t, args); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", args, got, want)
		}
	}
	t.Setenv("SWARM_SN_IP", "[::1]:7, sn2,sn3:9")
	if got := slSNs(t, ""); !slices.Equal(got, own) {
		t.Errorf("by variable: %v", got)
	}
	if got := slSNs(t, "--sn-ip sn1"); !slices.Equal(got, []string{"sn1:30304"}) {
		t.Errorf("variable and option: %v, want the option's", got)
	}
}

func slSNs(t *testing.T, args string) (sns []string) {
	t.Helper()
	e := environment(nil)
	words := append([]string{"run-sl", "--host-ip=10.0.0.2", "--identity=embedded", "--attach"}, strings.Fields(args)...)
	err := parse(t, e, words, func(c *cli.Context) error {
		cfg, err := slConfig(c, e)
		sns = cfg.SNs
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", args, err)
	}
	return sns
}
