// Package metrics tells Prometheus how a node fares: it serves what the node's parts know, read when somebody asks, and counts on the way what
// no part keeps.
//
// Names, units and labels stand in docs/operations/metrics.md. A label that takes names from others has a bound: what comes beyond goes by
// the name [Other].
package metrics
