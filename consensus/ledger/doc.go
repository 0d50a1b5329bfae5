// Package ledger is the format of the swarm's audit log: an append-only file of records, one JSON object a line, in which
// every record holds the hash of the line before. It is pure: bytes in, bytes out. Its sub-package audit judges a whole
// file; consensus keeps one on every SN.
package ledger
