package runjob

import (
	"encoding/json"
	"strconv"

	"github.com/swarmd/swarmd/internal/framework"
)

// node is what the file that names all members has of one, in the words of Oracle's Distributed Jobs. Its documents and its library disagree in how
// the address is spelled, so that both are there.
type node struct {
	Address       string `json:"IpAddress"`
	AddressAsRead string `json:"IPAddress"`
	Name          string `json:"FQDN"`
	Rank          string // a text, as there
	Group         string `json:"NodeGroupName"`
	ID            string `json:"NodeId"`
	LocalIndex    string // among the members of its host
	Host          string
}

// metadata is that file. It is written when all members are placed, so it never grows.
func metadata(p framework.Placement, groups []string) ([]byte, error) {
	all, local := []node{}, map[string]int{}
	for rank, m := range p.Members {
		all = append(all, node{
			Address: m.Address, AddressAsRead: m.Address, Name: m.Name, Rank: strconv.Itoa(rank), Group: groups[rank], ID: p.Run + "-" + strconv.Itoa(rank),
			LocalIndex: strconv.Itoa(local[m.Host]), Host: m.Host,
		})
		local[m.Host]++
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	return append(raw, '\n'), err
}

// hostsOf are the members' names and addresses, as an engine takes them for /etc/hosts.
func hostsOf(p framework.Placement) (all []string) {
	for _, m := range p.Members {
		all = append(all, m.Name+":"+m.Address)
	}
	return all
}
