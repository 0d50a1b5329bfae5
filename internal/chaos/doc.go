// Package chaos runs whole swarms of real processes under random faults and judges what they did: every committed round is
// computed again from what its participants offered, the SNs' ledgers are compared as they grow, and after each wave of faults
// all peers must be in one round again within a bound. What goes wrong is a function of a seed; when it is noticed depends on
// the machine.
//
// Faults on links and full disks need root: each node then has a network namespace and a small file system of its own.
// Elsewhere nodes have loopback addresses, and these faults are left out.
package chaos
