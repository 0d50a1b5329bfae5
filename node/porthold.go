package node

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// portHolder names the process that listens on a TCP port, as far as this user may see it.
func portHolder(port int) string {
	inode := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode = listeningInode(table, port); inode != "" {
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

// listeningInode finds the socket in a table of proc(5) that listens (state 0A) on the port.
func listeningInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], suffix) {
			return fields[9]
		}
	}
	return ""
}
