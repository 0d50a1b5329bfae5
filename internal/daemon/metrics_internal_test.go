package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/launch/start"
)

// TestMetricsOption: SNs and SLs take it, by option and variable; beyond this host it is said that nobody is asked who he is, by who sees
// the option as it was given.
func TestMetricsOption(t *testing.T) {
	for words, read := range map[string]func(*cli.Context, Env) (string, error){
		"run-sn --host-ip=10.0.0.2 --identity=embedded --sentinel": func(c *cli.Context, e Env) (string, error) {
			cfg, err := snConfig(c, e)
			return cfg.Metrics, err
		},
		"run-sl --host-ip=10.0.0.2 --identity=embedded --attach --sn-ip=sn1": func(c *cli.Context, e Env) (string, error) {
			cfg, err := slConfig(c, e)
			return cfg.Metrics, err
		},
	} {
		at := func(e Env, more ...string) (got string, err error) {
			err = parse(t, e, append(strings.Fields(words), more...), func(c *cli.Context) (err error) {
				got, err = read(c, e)
				return err
			})
			return got, err
		}
		for given, open := range map[string]bool{"127.0.0.1:9464": false, "[::1]:1": false, ":9464": true, "10.0.0.2:9464": true} {
			for contained, says := range map[string]bool{"": open, "1": false} {
				out := &bytes.Buffer{}
				e := environment(map[string]string{"SWARM_IN_CONTAINER": contained})
				e.Stderr = out
				t.Setenv("SWARM_METRICS", given)
				got, err := at(e)
				if said := strings.Contains(out.String(), "metrics are served beyond this host"); err != nil || got != given || said != says {
					t.Errorf("%s: %s (in a container: %q): %q, %v, %s", words, given, contained, got, err, out)
				}
			}
		}
		for variable, local := range map[string]bool{"": false, "1": true} {
			e := environment(map[string]string{"SWARM_METRICS_LOCAL": variable})
			if err := parse(t, e, strings.Fields(words), func(c *cli.Context) error {
				if cfg, _ := commonProblems(c, e, &start.Node{}, identity.RoleSN, 1); cfg.MetricsLocal != local {
					t.Errorf("%q: local: %v", variable, cfg.MetricsLocal)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		if _, err := at(environment(nil), "--metrics=9464"); err == nil || !strings.Contains(err.Error(), "--metrics 9464: want HOST:PORT, such as 127.0.0.1:9464") {
			t.Errorf("%s: %v", words, err)
		}
	}
}
