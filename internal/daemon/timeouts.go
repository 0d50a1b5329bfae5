package daemon

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/session"
)

// longestWait bounds what an option may ask for, as the swarm does.
const longestWait = 7 * 24 * time.Hour

// The five timeouts of training that a user can set; docs/reference/timeouts.md has them in a table. Everything else is
// decided by progress.
const (
	quorumFlag   = "full-quorum-wait"
	stallFlag    = "stall-grace"
	minPeersFlag = "min-peers-timeout"
	sessionFlag  = "session-timeout"
	lingerFlag   = "linger"
)

// Hidden options, for the original's variables.
const (
	quorumSecondsFlag = "full-quorum-seconds"
	stallSecondsFlag  = "leader-failure-seconds"
	adminFlag         = "make-me-admin"

	quorumVariable = "SL_WAIT_FOR_FULL_QUORUM_SECONDS"
	stallVariable  = "SL_LEADER_FAILURE_BASE_TIMEOUT"
	adminVariable  = "SL_MAKE_ME_ADMIN"
)

// waitFlags are the timeouts that SNs and SLs share: an SL asks for them, an SN has them for those who ask for nothing.
func waitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: quorumFlag, Usage: "how long a round waits for the rest once minPeers are ready", DefaultText: "30s", EnvVars: env(quorumFlag)},
		&cli.DurationFlag{Name: stallFlag, Usage: "how long the same peers try again when a merge stalls", DefaultText: "1m", EnvVars: env(stallFlag)},
		&cli.StringFlag{Name: quorumSecondsFlag, Hidden: true, EnvVars: []string{quorumVariable}},
		&cli.StringFlag{Name: stallSecondsFlag, Hidden: true, EnvVars: []string{stallVariable}},
	}
}

// patienceFlags are an SL's timeouts, and whether it may own a part of a merge.
func patienceFlags() []cli.Flag {
	return append(waitFlags(),
		&cli.DurationFlag{Name: minPeersFlag, Usage: "fail when fewer than minPeers were there for so long (default: wait for ever)", EnvVars: env(minPeersFlag)},
		&cli.DurationFlag{Name: lingerFlag, Value: 10 * time.Minute, Usage: "serve the final model to others for so long at most", EnvVars: env(lingerFlag)},
		&cli.DurationFlag{Name: sessionFlag, Usage: "stop a program that has opened no session by then (default: never)", EnvVars: env(sessionFlag)},
		&cli.StringFlag{Name: adminFlag, Usage: "False: this node owns no part of a merge, it only sends and receives", DefaultText: "True", EnvVars: append(env(adminFlag), adminVariable)},
	)
}

// patience reads an SL's timeouts.
func patience(c *cli.Context, e Env) (session.Patience, error) {
	var p session.Patience
	var err error
	if p.QuorumWait, err = wait(c, e, quorumFlag, quorumSecondsFlag, quorumVariable); err != nil {
		return p, err
	}
	if p.StallGrace, err = wait(c, e, stallFlag, stallSecondsFlag, stallVariable); err != nil {
		return p, err
	}
	p.MinPeers = c.Duration(minPeersFlag)
	for _, name := range []string{minPeersFlag, sessionFlag, lingerFlag} {
		if d := c.Duration(name); d < 0 || d > longestWait {
			return p, fmt.Errorf("--%s %s: want a time such as 90s or 5m, a week at most", name, d)
		}
	}
	admin := c.String(adminFlag)
	if admin == "" {
		admin = variable(c, e, adminVariable)
	}
	if admin == "" {
		return p, nil
	}
	may, err := strconv.ParseBool(strings.ToLower(admin))
	if err != nil {
		return p, fmt.Errorf("--%s (%s) %q: want True or False", adminFlag, adminVariable, admin)
	}
	p.NoShard = !may
	return p, nil
}

// wait is a time by flag, else by the original's variable in seconds, which may be given to the program too; 0 if neither
// says.
func wait(c *cli.Context, e Env, flag, secondsFlag, name string) (time.Duration, error) {
	d := c.Duration(flag)
	if c.IsSet(flag) && d < time.Millisecond || d > longestWait {
		return 0, fmt.Errorf("--%s %s: want a time such as 90s or 5m, a week at most", flag, d)
	}
	text := c.String(secondsFlag)
	if text == "" {
		text = variable(c, e, name)
	}
	if d > 0 || text == "" {
		return d, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || time.Duration(n)*time.Second > longestWait {
		return 0, fmt.Errorf("%s %q: want seconds, a week at most", name, text)
	}
	return time.Duration(n) * time.Second, nil
}

// variable is one of the original's variables where its scripts put them: among those for the program.
func variable(c *cli.Context, e Env, name string) string {
	value := ""
	if c.Command.Name == "run-sl" {
		o, err := readSL(c, e)
		if err != nil {
			return ""
		}
		for _, kv := range o.Container.Env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				value = v
			}
		}
	}
	return value
}
