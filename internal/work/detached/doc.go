// Package detached is for executors whose programs are processes of this host that outlive this one: it starts them, notes how they ended, ends
// them, and reads what they print. What there is of a member is in a directory that is named for it.
package detached
