// Package deploy holds tests of the systemd units in deploy/systemd: that systemd takes them, that swarmd knows what they
// give it, and that the nodes which they describe come up. It has no code of its own.
package deploy
