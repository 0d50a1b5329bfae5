package cmdline

import (
	"fmt"
	"slices"
	"strings"
)

// originalVariable is a variable that the original's scripts set in containers, or that its users set there: it stands for an option,
// changes nothing, or is refused.
type originalVariable struct {
	Names  []string
	Option string              // that it stands for, where the command has it
	Value  func(string) string // makes the option's value of the variable's; "": not given. Nil: the same
	Says   string              // why it changes nothing
	Use    string              // what to do instead, where it is refused
	Of     []string            // the commands that it is for; nil: all
	Typed  bool                // counts only where -e gives it: in an environment it may be meant for others
}

const (
	inSN, inSL, inSWCI, inSWOP = "run-sn", "run-sl", "run-swci", "run-swop"
)

// originalVariables are those of all releases. SL_WAIT_FOR_FULL_QUORUM_SECONDS, SL_LEADER_FAILURE_BASE_TIMEOUT, SL_MAKE_ME_ADMIN and
// SWARM_ID_… belong to options of their own, and SWARM_LOOPBACK is the program's.
var originalVariables = []originalVariable{
	{Names: []string{"THIS_NODE_IP"}, Option: "host-ip", Typed: true},
	{Names: []string{"SENTINEL_NODE_IP"}, Option: "sentinel-ip", Of: []string{inSN}},
	{Names: []string{"SN_NODE_IP", "SENTINEL_NODE_IP"}, Option: "sn-ip", Of: []string{inSL}},
	{Names: []string{"SN_NODE_IP"}, Option: "sn-ip", Of: []string{inSWOP}},
	{Names: []string{"USR_DIR"}, Option: "usr-dir", Of: []string{inSWOP}},
	{Names: []string{"SWOP_PROFILE"}, Option: "profile-file-name", Of: []string{inSWOP}},
	{Names: []string{"SWOP_UID"}, Option: "swop-uid", Of: []string{inSWOP}},
	{Names: []string{"SWOP_FS_PORT"}, Option: "swop-fs-port", Of: []string{inSWOP}},
	{Names: []string{"SWOP_DOCKER_GID"}, Option: "docker-group-id", Of: []string{inSWOP}},
	{Names: []string{"SWOP_KEEP_CONTAINERS"}, Option: "keep-containers", Value: truth, Of: []string{inSWOP}},
	{Names: []string{"SN_I_AM_SENTINEL"}, Option: "sentinel", Value: truth, Of: []string{inSN}},
	{Names: []string{"SENTINEL_FS_PORT"}, Option: "sentinel-fs-port", Of: []string{inSN}},
	{Names: []string{"SENTINEL_API_SERVICE"}, Option: "sentinel-api-service", Of: []string{inSN}},
	{Names: []string{"SENTINEL_API_SERVER_PORT"}, Says: "SNs join at the Sentinel's file server", Of: []string{inSN}},
	{Names: []string{"SN_API_SERVER_PORT", "API_SERVER_PORT"}, Option: "sn-api-port", Typed: true},
	{Names: []string{"SN_API_SERVICE"}, Option: "sn-api-service"},
	{Names: []string{"SN_FS_PORT"}, Option: "sn-fs-port", Of: []string{inSN}},
	{Names: []string{"SN_ETH_PORT_EXT", "ETH_PORT"}, Option: "sn-p2p-port", Of: []string{inSN}, Typed: true},
	{Names: []string{"SN_ETH_P2P_SERVICE"}, Option: "sn-p2p-service", Of: []string{inSN}},
	{Names: []string{"SL_FS_PORT", "ML_FS_PORT"}, Option: "sl-fs-port", Of: []string{inSL}},
	{Names: []string{"SL_FS_SERVICE"}, Option: "sl-fs-service", Of: []string{inSL}},
	{Names: []string{"SL_LOG_LEVEL"}, Option: "log-level", Value: level, Of: []string{inSL}},
	{Names: []string{"SWARM_SPIFFE_WORKLOAD_API_SOCKET_PATH"}, Option: "socket-path"},
	{Names: []string{"SWCI_STARTUP_SCRIPT", "STARTUP_SCRIPT"}, Option: "init-script-name", Of: []string{inSWCI}, Typed: true},
	{Names: []string{"MLCMD"}, Use: "name the program with --model-program, or a command with --ml-cmd", Of: []string{inSL}, Typed: true},

	{Names: []string{"SL_REQUEST_CHANNEL"}, Says: "an SL chooses its program's channels itself", Of: []string{inSL}},
	{Names: []string{"SL_RESPONSE_CHANNEL"}, Says: "an SL chooses its program's channels itself", Of: []string{inSL}},
	{Names: []string{"SL_RAM_INTENSIVE"}, Says: "medians are merged leaf by leaf, in little memory", Of: []string{inSL}},
	{Names: []string{"SL_MODEL_PARAMS_COMPRESSION_THRESHOLD_MB"}, Says: "parameters travel as they are", Of: []string{inSL}},
	{Names: []string{"SN_START_MINING"}, Says: "nothing is mined", Of: []string{inSN}},
	{Names: []string{"SWARM_LICENSE_AUTOPASSJ_SERVER_PRIMARY_IP"}, Says: noLicence},
	{Names: []string{"SWARM_LICENSE_AUTOPASSJ_SERVER_PRIMARY_PORT"}, Says: noLicence},
	{Names: []string{"SWARM_LICENSE_AUTOPASSJ_SERVER_SECONDARY_IP"}, Says: noLicence},
	{Names: []string{"SWARM_LICENSE_AUTOPASSJ_SERVER_SECONDARY_PORT"}, Says: noLicence},
	{Names: []string{"LOGS_DIR"}, Says: "logs go to standard error, and so to docker logs", Typed: true},
	{Names: []string{"USR_DIR"}, Says: "--usr-dir names the user's directory", Of: []string{inSN, inSL, inSWCI}, Typed: true},
	{Names: []string{"SWCI_MODE"}, Option: "web", Value: web, Of: []string{inSWCI}},
	{Names: []string{"SWCI_WEB_PORT"}, Option: "web-port", Of: []string{inSWCI}},
	{Names: []string{"SWOP_GID"}, Says: "the container's group is that of the engine's socket: --docker-group-id", Of: []string{inSWOP}},
}

// truth is how the original's users write a switch; one that is off is not given.
func truth(v string) string {
	switch v = strings.ToLower(v); v {
	case "1":
		return "true"
	case "0", "false":
		return ""
	}
	return v
}

// level is a level of Python's logging.
func level(v string) string {
	switch v = strings.ToLower(v); v {
	case "warning":
		return "warn"
	case "critical":
		return "error"
	}
	return v
}

// web is the switch of the only mode that has one.
func web(v string) string {
	if strings.EqualFold(v, "WEB") {
		return "true"
	}
	return ""
}

// TakeVariables adds the options that the original's variables stand for to a command's line, unless the line or their own variables
// have them, and returns what is to be said of the other variables. One that is refused is an error.
func (l *Line) TakeVariables(command string, flags Table, getenv func(string) string) (says []string, err error) {
	for _, v := range originalVariables {
		if v.Of != nil && !slices.Contains(v.Of, command) {
			continue
		}
		from, value := v.find(l, getenv)
		if v.Value != nil && value != "" {
			value = v.Value(value)
		}
		known, has := flags[v.Option]
		switch {
		case value == "":
		case v.Use != "":
			return nil, fmt.Errorf("%s is not taken here: %s", from, v.Use)
		case v.Says != "":
			says = append(says, fmt.Sprintf("%s changes nothing: %s", from, v.Says))
		case !has:
			says = append(says, fmt.Sprintf("%s changes nothing: %s has no --%s", from, command, v.Option))
		case !l.names(flags, known.Name) && getenv(Variable(known.Name)) == "":
			l.Options = append(l.Options, Option{Typed: from, Name: known.Name, Value: value, Given: true})
		}
	}
	return says, nil
}

// find returns where a variable is given, as a user would name it, and its value there; what is typed wins.
func (v originalVariable) find(l *Line, getenv func(string) string) (from, value string) {
	for _, name := range v.Names {
		for _, o := range l.Options {
			if text, ok := strings.CutPrefix(o.Value, name+"="); ok && (o.Name == "e" || o.Name == "env") {
				from, value = "-e "+name, text
			}
		}
		if value == "" && !v.Typed {
			from, value = "$"+name, getenv(name)
		}
		if value != "" {
			return from, value
		}
	}
	return "", ""
}

// names reports whether the line has an option, under any of its names.
func (l *Line) names(flags Table, name string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool { return flags[o.Name].Name == name })
}
