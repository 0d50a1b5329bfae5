// Package jobs holds tests of jobs on hosts that have network namespaces of their own, and container engines of their own where they need
// one: hosts that die, stand still or lose their link, and members that meet across hosts. Root is needed.
package jobs
