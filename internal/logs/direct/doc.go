// Package direct carries logs from a host to an operator on a stream between the two: the host's file server serves it. A stream begins with
// the operator's request, a LogOrder; then the host sends LogTexts, of which the last says that it is. Each message is a frame of internal/p2p.
package direct
