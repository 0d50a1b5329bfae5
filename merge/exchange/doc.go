// Package exchange is the wire protocol of one merge attempt: every participant
// sends its slices to the owners of the shards and reads merged leaves back,
// over streams that it is given. It knows nothing of libp2p, raft or files.
//
// A Hub lives as long as the daemon. The stream handler calls Hub.Serve for
// every incoming stream, the session calls Hub.Run for each planned attempt.
package exchange
