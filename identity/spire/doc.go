// Package spire runs SPIRE's server and agent as children of this process and speaks to the server's API: the swarm's
// registration entries, join tokens, trust bundles. Both programs are the real ones; nothing of them is reimplemented.
package spire
