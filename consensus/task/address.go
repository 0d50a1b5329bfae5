package task

import "strings"

// Address is where a member of a job is in the network of its job, if it has an address of its own there.
type Address struct {
	// IP is written as Go writes it; empty: there is none, or its host has not told it.
	IP string `json:"ip,omitempty"`
	// IPSignature is the host's, by its node key over identity.MemberAddressMessage, base64. Both go when the assignment is over.
	IPSignature string `json:"ip_signature,omitempty"`
}

// maxIP is the length of the longest IP, in bytes.
const maxIP = 39

// ipFormed reports whether an address is of what IPs are written with. Who takes a host's report reads it as one.
func ipFormed(s string) bool {
	return s != "" && len(s) <= maxIP && strings.Trim(s, "0123456789abcdef.:") == ""
}

// proper reports whether an address is none, or one with a signature.
func (x Address) proper() bool {
	return x == Address{} || ipFormed(x.IP) && x.IPSignature != "" && visible(x.IPSignature, maxSignature)
}

// mayTell reports whether a host may say the address that comes with a report, if there is one.
func mayTell(a *Assignment, r Report) bool {
	return r.Address == Address{} || a.Shares && r.State == Prepared && r.proper()
}
