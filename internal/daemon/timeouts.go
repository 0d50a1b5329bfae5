package daemon

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/session"
)

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
		&cli.DurationFlag{Name: stallFlag, Usage: "how long the same peers repeat a merge that stalls", DefaultText: "1m", EnvVars: env(stallFlag)},
		&cli.StringFlag{Name: quorumSecondsFlag, Hidden: true, EnvVars: []string{quorumVariable}},
		&cli.StringFlag{Name: stallSecondsFlag, Hidden: true, EnvVars: []string{stallVariable}},
	}
}

// timeoutFlags are an SL's timeouts, and whether it may own a part of a merge.
func timeoutFlags() []cli.Flag {
	return append(waitFlags(),
		&cli.DurationFlag{Name: minPeersFlag, Usage: "fail if fewer than minPeers are there for this time (default: wait without limit)", EnvVars: env(minPeersFlag)},
		&cli.DurationFlag{Name: lingerFlag, Value: time.Duration(start.DefaultLinger), Usage: "serve the final model to others for at most this time", EnvVars: env(lingerFlag)},
		&cli.DurationFlag{Name: sessionFlag, Usage: "stop a program that has opened no session by then (default: never)", EnvVars: env(sessionFlag)},
		&cli.StringFlag{Name: adminFlag, Usage: "False: this node owns no part of a merge, it only sends and receives", DefaultText: "True", EnvVars: append(env(adminFlag), adminVariable)},
	)
}

// timeouts reads an SL's timeouts.
func timeouts(o *start.SL) (session.Timeouts, error) {
	p := session.Timeouts{MinPeers: time.Duration(o.MinPeersTimeout)}
	var err error
	if p.QuorumWait, p.StallGrace, err = waits(o.Waits, o.Container.Env); err != nil {
		return p, err
	}
	admin := cmp.Or(o.MakeMeAdmin, variable(o.Container.Env, adminVariable))
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

// waits are two times by option, else by the original's variables in seconds, which may be given to the program too, in env; 0 if
// neither says.
func waits(w start.Waits, env []string) (quorum, stall time.Duration, err error) {
	if quorum, err = w.QuorumWait.Seconds(quorumVariable, cmp.Or(w.QuorumSeconds, variable(env, quorumVariable))); err != nil {
		return 0, 0, err
	}
	stall, err = w.StallGrace.Seconds(stallVariable, cmp.Or(w.StallSeconds, variable(env, stallVariable)))
	return quorum, stall, err
}

// variable is the last value of a variable among those of a list.
func variable(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
