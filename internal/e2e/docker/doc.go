// Package docker holds tests of swarms in containers, on a real engine and real SPIRE, started as the users of the original
// start theirs: by the scripts.
package docker
