// Package audit judges a copy of a ledger offline: that its chain is whole, that rounds follow one another, that their
// participants signed them, that the node keys which signed belong to nodes that registered with an SVID, and that the SVIDs
// were issued by the authorities of their time, beginning with those that the auditor names.
package audit
