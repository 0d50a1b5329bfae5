package start

import (
	"fmt"
	"net"
	"strconv"

	"github.com/swarmd/swarmd/internal/address"
)

// serviceAPIPort is where a reverse proxy serves APIs unless told otherwise.
const serviceAPIPort Port = 443

// service reads FQDN[:PORT] of a reverse proxy and returns it with a port.
func service(flag, given string, otherwise Port) (hostPort string, err error) {
	if hostPort, err = address.HostPort(given, strconv.Itoa(int(otherwise))); err != nil {
		return "", fmt.Errorf("--%s %.260s: want FQDN or FQDN:PORT, such as api.sn1.example:443: %w", flag, given, err)
	}
	return hostPort, nil
}

// passed reads FQDN[:PORT] of a port that a proxy passes through as it is: the node listens on the same one, which is returned in
// port, or otherwise on that of its option.
func passed(flag, given string, port *Port, otherwise Port, option string) (host string, err error) {
	at, err := service(flag, given, port.Or(otherwise))
	if err != nil {
		return "", err
	}
	host, number, _ := net.SplitHostPort(at)
	n, _ := strconv.Atoi(number)
	if *port != 0 && *port != Port(n) {
		return "", fmt.Errorf("--%s %s and --%s %d: a proxy passes this port through as it is: give the same port in both", flag, given, option, *port)
	}
	*port = Port(n)
	return host, nil
}

// settleSN gives the SN of a service its place among those that are named.
func settleSN(sns *[]string, given *string) error {
	if *given == "" {
		return nil
	}
	sn, err := service("sn-api-service", *given, serviceAPIPort)
	if err == nil {
		*sns, *given = append(*sns, sn), ""
	}
	return err
}
