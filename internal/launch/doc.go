// Package launch starts ML programs. The process runtime runs a program as a child in a process group of its own, which
// dies with the daemon, however the daemon dies. It does not isolate the program: that needs a container, package
// container. What both do with a program's output is here: Output.
package launch
