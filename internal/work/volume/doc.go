// Package volume reaches what is in an engine's volumes for tasks: through a container that has the volume and is never started, so that
// no program is needed and none runs.
package volume
