package nonce

// Size tells how many nonces are good, and in how many places of the order.
func Size(n *Table) (live, order int) { return len(n.live), len(n.order) }
