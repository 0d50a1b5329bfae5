// Package isolation tests that ML programs in containers find no way out, at Docker and at Podman, and what they are told when
// GPUs or shared memory are missing. It has tests only.
package isolation
