// Package node puts the parts of a role together, runs them and stops them in order. It holds no logic: what a part needs
// of another is joined here by small adapters, each in a file of its own. RunSN and RunSL block for a node's life.
package node
