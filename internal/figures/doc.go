// Package figures has what a node's machine and its daemon have and use now: processors, memory, GPUs, disk, streams. They are taken when an
// operator asks, and go the way of the node's log: sealed, past SNs that can't read them, to whom the log may go. Nothing of them is kept.
package figures
