// Package crcline is how what SNs keep beside the ledger stands in files: one line for each record, behind a checksum of it, so that what a crash or
// a disk has damaged is known.
package crcline

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
)

// Sealed is a line with data, in which there is no line feed: a checksum, a blank, data, a line feed.
func Sealed(data []byte) []byte { return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(data), data) }

// Read returns the data of a line, without its line feed; not ok: it is damaged.
func Read(line []byte) (data []byte, ok bool) {
	sum, data, ok := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	return data, ok && err == nil && len(sum) == 8 && uint64(crc32.ChecksumIEEE(data)) == want
}
