// Package launch starts ML programs. The process runtime runs a program as a child in a process group of its own, which
// dies with the daemon, however the daemon dies. It gives no wall around the program: that needs a container.
package launch
