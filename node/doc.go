// Package node composes the nodes of all roles: New(cfg, deps).Run(ctx) opens the parts of a node, runs them and stops them in order. What
// a node does stands in the packages that it composes.
package node
