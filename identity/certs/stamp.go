package certs

import (
	"fmt"
	"io/fs"
	"syscall"
)

// fileStamp changes when a file is written, replaced or given other rights. The change time tells what keeps size and
// modification time, the inode what a rename has put in place.
func fileStamp(info fs.FileInfo) string {
	out := fmt.Sprintf("%v %d %d", info.Mode(), info.Size(), info.ModTime().UnixNano())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out += fmt.Sprintf(" %d %d %d.%d", st.Dev, st.Ino, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return out
}
