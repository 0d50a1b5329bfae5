// Package published holds tests of programs as the original's pages show them for each release and framework: unchanged, in a swarm of
// real daemons, as processes and in the images for ML programs. Most of them are for make test-long.
package published
