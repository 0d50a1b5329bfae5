// Package rendezvous is where the ranks of Horovod meet without horovodrun: the key-value store that its gloo asks over HTTP, beside the program of
// rank 0, and the wait of the other ranks for it. Each starts with an empty store, and it ends with rank 0's program.
package rendezvous
