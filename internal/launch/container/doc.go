// Package container runs ML programs in containers of their own, isolated: no network, no capabilities, a read-only root,
// limits, and of the host only the data, the model and the bridge directory. What a Spec opens beyond that, Spec.Isolation says.
//
// A program outlives the daemon that started it. Nothing is remembered here: Find lists what the engine has by labels, and
// Adopt takes one up again. A container is made and started by two calls to the engine, so a daemon that dies in between
// leaves one that was created and never started; Find shows it, Remove removes it.
//
// Output comes from the engine's log of the container, not from an attachment: it is there for a daemon that comes back, or
// after the engine was restarted. Its times tell where to go on.
package container
