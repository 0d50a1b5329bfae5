package rpc

import "net/http"

const (
	// memoryInAll bounds what the calls that are served at a time may take, by their charges, in bytes; memoryPerID what
	// those of one SPIFFE ID may.
	memoryInAll = 256 << 20
	memoryPerID = 64 << 20
	// memoryNodes bounds what small calls with a node's token take, of all and of one node: heartbeats and watches do not wait for
	// what others do under the same SPIFFE ID, or without a token. A small call is charged smallCall at most. All nodes of a SPIFFE
	// ID may take timesFree times what is then still free, which is three quarters of all if nobody else takes any: enough for the
	// watches of 1,024 nodes, and others find some.
	memoryNodes   = 128 << 20
	timesFree     = 3
	memoryPerNode = 8 << 20
	smallCall     = 512 << 10
	// bodyCopies is how much of a message's size is in memory at the worst: a buffer that has grown, and what is made of it.
	bodyCopies = 3
)

// charge is what a call may take: its message as long as it says, or as it may be if it does not say or is compressed, and
// its answer.
func (a Access) charge(r *http.Request) int64 {
	size := r.ContentLength
	if size < 0 || size > a.maxMessage() || compressed(r.Header) {
		size = a.maxMessage()
	}
	return bodyCopies*size + a.answer()
}

// compressed reports whether a message may become larger than what is read of it, in any of the API's protocols.
func compressed(h http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
		if v := h.Get(name); v != "" && v != "identity" {
			return true
		}
	}
	return h.Get("Content-Type") == "" // a message in the address: it says nothing of itself
}
