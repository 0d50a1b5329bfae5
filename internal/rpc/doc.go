// Package rpc serves the API of a Swarm Network node: Connect (gRPC, gRPC-Web and JSON over HTTP) on mutual TLS with
// X.509-SVIDs.
//
// One type per service, in a file of its own (swarm.go, node.go, session.go, contract.go), with what it needs; convert.go takes what
// callers say into domain types, package messages makes what they are shown; errors.go is the only place where an error becomes a code
// and a reason; access.go the only place that reads from swarm.proto who may call what. A request passes, in this order: the caller's
// certificate (caller.go, middleware.go), the access table, the swarm ID, and for calls that speak for a node its token
// (interceptor.go). What must hold under races is decided by the replicated state, not here.
package rpc
