package text

import (
	"strconv"
	"strings"
)

// Names lists nodes for people: "sl-0, sl-1", or "nobody".
func Names(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, ", ")
}

// MorePeers counts the peers that are missing: "1 more peer". What stands before "peer", with a space behind it; it may be empty.
func MorePeers(n int, what string) string {
	if n == 1 {
		return "1 more " + what + "peer"
	}
	return strconv.Itoa(n) + " more " + what + "peers"
}
