package swci

import (
	"slices"
	"strings"
)

// neighbours are words that other tools have for what commands here do: the nearest in spelling would be about something else.
var neighbours = map[string][]string{
	"bye":       {"exit"},
	"check":     {"doctor", "identity check"},
	"contracts": {"list contracts"},
	"down":      {"stop"},
	"health":    {"get health"},
	"info":      {"get context info", "list nodes"},
	"init":      {"new", "local run", "create contract"},
	"join":      {"invite", "help"},
	"jobs":      {"list jobs"},
	"kick":      {"ban node"},
	"kill":      {"cancel job", "ban node"},
	"logout":    {"exit"},
	"logs":      {"get logs"},
	"models":    {"list models", "get model"},
	"nodes":     {"list nodes"},
	"peers":     {"list nodes"},
	"ping":      {"doctor", "identity check"},
	"preflight": {"doctor"},
	"ps":        {"list nodes", "ps"},
	"quit":      {"exit"},
	"remove":    {"forget node", "ban node"},
	"restart":   {"reset contract"},
	"rm":        {"forget node", "delete contract"},
	"run":       {"local run", "run job"},
	"squeue":    {"list jobs"},
	"start":     {"local up", "local run"},
	"status":    {"get contract status", "list nodes", "get health"},
	"submit":    {"run job"},
	"train":     {"local run"},
	"up":        {"local up"},
	"validate":  {"verify model", "verify ledger"},
	"whoami":    {"identity"},
}

// neighbour names the commands that do what a word means elsewhere, of those that there are; empty: none.
func neighbour(word string, names []string) string {
	var near []string
	for _, n := range neighbours[strings.ToLower(word)] {
		if slices.Contains(names, n) {
			near = append(near, `"swarmctl `+n+`"`)
		}
	}
	if len(near) == 0 {
		return ""
	}
	last := near[len(near)-1]
	if len(near) == 1 {
		return "did you mean " + last + "?"
	}
	return "did you mean " + strings.Join(near[:len(near)-1], ", ") + " or " + last + "?"
}
