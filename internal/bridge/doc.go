// Package bridge is the daemon's side of an ML program: HTTP/1.1 with JSON on a unix socket for control, and three weight
// files ("slots") for the parameters, which never travel through the socket. The bodies are in package wire; the
// specification for client writers is docs/reference/bridge.md.
//
// The program is not trusted to behave: bodies are bounded and validated, and slots are read and written with pread and
// pwrite on descriptors that the daemon keeps, so a program that truncates a file gets an error and can not crash the
// daemon.
package bridge
