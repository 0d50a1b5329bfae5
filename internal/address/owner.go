package address

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// owner names the process that listens on a TCP port of this host ("": any), as far as this user may see it.
func owner(host string, port int) string {
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode = listeningInode(table, host, port); inode != "" {
			break
		}
	}
	if inode == "" {
		return "another process"
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == "socket:["+inode+"]" {
			pid := strings.Split(fd, "/")[2]
			comm, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), pid)
		}
	}
	return "another user's process"
}

// listeningInode finds the socket in a table of proc(5) that listens (state 0A) on the port of this host or of all.
func listeningInode(table, host string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	want := net.ParseIP(host)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" {
			continue
		}
		address, hexPort, _ := strings.Cut(fields[1], ":")
		ip := procIP(address)
		if hexPort == fmt.Sprintf("%04X", port) && (want == nil || ip.IsUnspecified() || ip.Equal(want)) {
			return fields[9]
		}
	}
	return ""
}

// procIP reads an address as the kernel prints it: 32-bit words, each in the byte order of this machine.
func procIP(s string) net.IP {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw)%4 != 0 {
		return nil
	}
	ip := make(net.IP, 0, len(raw))
	for word := range slices.Chunk(raw, 4) {
		ip = binary.BigEndian.AppendUint32(ip, binary.NativeEndian.Uint32(word))
	}
	return ip
}
