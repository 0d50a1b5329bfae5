// Package sockets tells at which addresses processes of this host listen, as its kernel shows it.
package sockets

import (
	"bufio"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxSockets bounds the lines of the kernel's list of sockets that are read, and maxFiles the open files of a process.
const maxSockets, maxFiles = 1 << 16, 1 << 16

// socket is one at which something of this host listens.
type socket struct {
	at    netip.AddrPort
	inode string
}

// listening are the sockets at which something in this process's network listens to a port.
func listening(port uint16) (all []socket) {
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/self/net/" + name)
		if err != nil {
			continue // IPv6 is off
		}
		all = append(all, socketsIn(f, port)...)
		_ = f.Close()
	}
	return all
}

// stateListen is the kernel's number for a socket that listens.
const stateListen = "0A"

// socketsIn reads the kernel's list of sockets.
func socketsIn(r io.Reader, port uint16) (all []socket) {
	lines := bufio.NewScanner(r)
	for n := 0; n < maxSockets && lines.Scan(); n++ {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		if at, ok := addrOf(fields[1]); ok && at.Port() == port {
			all = append(all, socket{at, fields[9]})
		}
	}
	return all
}

// addrOf reads an address as the kernel writes it: hex digits, each four bytes in the order of a little-endian machine.
func addrOf(s string) (at netip.AddrPort, ok bool) {
	host, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	n, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || len(raw)%4 != 0 {
		return at, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), ok
}

// ListensOf are the addresses at which processes listen to a port, by which they are to be dialled from this host.
func ListensOf(pids []int, port uint16) (at []netip.AddrPort) {
	all := listening(port)
	if len(all) == 0 {
		return nil
	}
	own := map[string]bool{}
	for _, pid := range pids {
		for _, inode := range inodesOf(pid) {
			own[inode] = true
		}
	}
	for _, s := range all {
		if own[s.inode] {
			at = append(at, dialled(s.at, all, own))
		}
	}
	return at
}

// dialled is the address by which this host reaches a socket of a member's. One on all of IPv6 is mostly one on all of IPv4 too, unless that is
// somebody else's; hosts may have IPv6 without an address for itself.
func dialled(at netip.AddrPort, all []socket, own map[string]bool) netip.AddrPort {
	if !at.Addr().IsUnspecified() {
		return at
	}
	four := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	other := slices.ContainsFunc(all, func(s socket) bool { return s.at.Addr().Is4() && !own[s.inode] })
	if at.Addr().Is6() && other {
		return netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
	}
	return netip.AddrPortFrom(four, at.Port())
}

// inodesOf are the sockets that a process has. One of another user has none that can be seen.
func inodesOf(pid int) (all []string) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxFiles)
	for _, name := range names {
		to, err := os.Readlink(filepath.Join(dir, name))
		if inode, is := strings.CutPrefix(to, "socket:["); err == nil && is {
			all = append(all, strings.TrimSuffix(inode, "]"))
		}
	}
	return all
}
