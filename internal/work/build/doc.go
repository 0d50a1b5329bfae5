// Package build carries out MAKE_USER_CONTAINER: the host's engine builds an image by a task's steps. What they are is another's word, so a
// build has no more of the host than its owner gives to it, ends in bounded time, and leaves nothing behind but its outcome.
package build
